from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from sage_cli.metrics.intervals.distributions import freedom_of, two_sided_p, two_sided_reach

FREEDOM_K = np.array([1, 1.3, 2, 2.7, 4, 8.5, 30, 299, 2000])


@pytest.mark.parametrize("t", [0.0, 1e-6, -0.1, 1.0, 2.776, 12.0, 1e4])
def test_p_against_scipy(t: float) -> None:
    expected_K = 2 * stats.t.sf(abs(t), FREEDOM_K)
    np.testing.assert_allclose(two_sided_p(np.full(9, t), FREEDOM_K), expected_K, rtol=1e-9)


def test_the_freedom_of_a_reach_is_the_one_it_came_from() -> None:
    found_K = freedom_of(0.05, stats.t.isf(0.025, FREEDOM_K))
    np.testing.assert_allclose(found_K, FREEDOM_K, rtol=1e-4)


@pytest.mark.parametrize("alpha", [0.5, 0.05, 0.001])
def test_reach_against_scipy(alpha: float) -> None:
    expected_K = stats.t.isf(alpha / 2, FREEDOM_K)
    np.testing.assert_allclose(two_sided_reach(alpha, FREEDOM_K), expected_K, rtol=1e-9)
