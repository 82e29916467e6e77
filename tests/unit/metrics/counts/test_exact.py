"""pass@k from exact chances."""

from __future__ import annotations

import numpy as np
import pytest

from sage_cli.metrics.counts.exact import exact_pass_at_k, worked_pass_at_k


def test_worked_pass_at_k_by_hand() -> None:
    found = worked_pass_at_k(np.array([0.0, 0.5, 0.1, 1.0]), [1, 2])
    # 1 - .5 ** 2 = .75, 1 - .9 ** 2 = .19
    assert found == pytest.approx(np.array([[0, 0], [0.5, 0.75], [0.1, 0.19], [1, 1]]), abs=1e-15)


def test_a_chance_far_below_rounding_still_counts() -> None:
    assert worked_pass_at_k(np.array([1e-20]), [256])[0, 0] == pytest.approx(256e-20, rel=1e-12)


def test_other_texts_by_hand() -> None:
    # (1 - .25)^2 C(4 - 1, 2) / C(4, 2) = .5625 * 3 / 6
    found = exact_pass_at_k(np.array([0.25]), np.array([4]), np.array([1]), [2])
    assert found[0, 0] == pytest.approx(1 - 0.28125)


def test_too_few_other_samples_give_nothing_unless_they_can_not_matter() -> None:
    p_P, m_P, c_P = np.array([0.1, 0.9, 0.1]), np.array([3, 3, 8]), np.array([1, 1, 0])
    found = exact_pass_at_k(p_P, m_P, c_P, [8])
    assert np.isnan(found[0, 0])  # .9 ** 8 = .43
    assert found[1, 0] == 1  # .1 ** 8 is nothing
    assert found[2, 0] == pytest.approx(1 - 0.9**8)


def test_it_has_no_bias_and_less_noise_than_counts() -> None:
    """Listed texts .3, other right ones .02: 1 - .68 ** 8 for any eight of 64 samples."""
    generator = np.random.default_rng(3)
    listed, other, n, k, draws = 0.3, 0.02, 64, 8, 40_000
    counts = generator.multinomial(n, [listed, other, 1 - listed - other], size=draws)
    found = exact_pass_at_k(
        np.full(draws, listed), n - counts[:, 0], counts[:, 1], [k]
    )[:, 0]  # fmt: skip
    truth = 1 - (1 - listed - other) ** k
    assert found.mean() == pytest.approx(truth, abs=4 * found.std() / draws**0.5)
    right = counts[:, 0] + counts[:, 1]
    missed = np.ones(draws)
    for i in range(k):
        missed *= (n - right - i) / (n - i)
    assert found.std() < 0.5 * (1 - missed).std()
