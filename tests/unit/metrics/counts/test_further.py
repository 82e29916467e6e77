"""pass^k, G-Pass@k and Cover@tau."""

from __future__ import annotations

import numpy as np
import pytest

from sage_cli.errors import MetricError
from sage_cli.metrics.counts.estimator import all_right_at_k, covered_at, g_pass_at_k, pass_at_k

N, C = np.array([5, 5, 5]), np.array([0, 3, 5])


def test_all_of_k_are_right() -> None:
    # 3 of 5 right: C(3,1)/C(5,1) = 3/5, C(3,2)/C(5,2) = 3/10, C(3,4) = 0
    expected = [[0, 0, 0], [3 / 5, 3 / 10, 0], [1, 1, 1]]
    np.testing.assert_allclose(all_right_at_k(N, C, [1, 2, 4]), expected, atol=1e-12)


def test_a_share_of_k_is_right() -> None:
    # half of 4 are 2 of 4: 1 - P(1 right of 4) - P(0) = 1 - 3 C(2,3) / 5 - 0 = 1 (two are wrong)
    # three quarters are 3 of 4: C(3,3) C(2,1) / C(5,4) = 2/5
    assert g_pass_at_k(N, C, [4], 0.5)[:, 0] == pytest.approx([0, 1, 1])
    assert g_pass_at_k(N, C, [4], 0.75)[:, 0] == pytest.approx([0, 2 / 5, 1])
    # .3 of 10 are 3, though 0.3 * 10 may be above 3 in floating point; 7 of 10 are .7 * 10
    assert g_pass_at_k(np.array([10]), np.array([7]), [10], 0.7)[0, 0] == pytest.approx(1)


def test_the_least_share_is_pass_at_k() -> None:
    np.testing.assert_allclose(g_pass_at_k(N, C, [1, 3], 1e-6), pass_at_k(N, C, [1, 3]), atol=1e-12)


def test_covered_problems_have_the_share() -> None:
    # shares 0, .6, 1
    found = covered_at(N, C, [0.1, 0.6, 0.61, 1.0])
    assert found.tolist() == [[0, 0, 0, 0], [1, 1, 0, 0], [1, 1, 1, 1]]


def test_the_estimates_have_no_bias() -> None:
    """By simulation: of 64 samples with the chance .8, 6 of 8 right have the binomial chance."""
    c_P = np.random.default_rng(2).binomial(64, 0.8, 20_000)
    n_P = np.full(len(c_P), 64)
    # sum over i = 6..8 of C(8, i) .8^i .2^(8 - i) = .29360 + .33554 + .16777 = .79692
    assert g_pass_at_k(n_P, c_P, [8], 0.75).mean() == pytest.approx(0.79692, abs=0.004)
    assert all_right_at_k(n_P, c_P, [8]).mean() == pytest.approx(0.8**8, abs=0.004)


def test_what_is_not_defined_is_refused() -> None:
    with pytest.raises(MetricError, match="G-Pass@6 is undefined"):
        g_pass_at_k(N, C, [6], 0.5)
    with pytest.raises(MetricError, match="tau must be above 0"):
        covered_at(N, C, [0.0])
