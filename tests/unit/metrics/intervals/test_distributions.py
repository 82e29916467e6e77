from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from sage_cli.metrics.intervals.distributions import freedom_of, holm, two_sided_p, two_sided_reach

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


P_VALUES = st.lists(st.floats(0, 1), min_size=1, max_size=12)


def test_by_hand() -> None:
    # in order .01, .02, .03, .04 times 4, 3, 2, 1: .04, .06, .06, .04, and none below one before
    np.testing.assert_allclose(holm([0.03, 0.01, 0.04, 0.02]), [0.06, 0.04, 0.06, 0.06], rtol=1e-15)
    np.testing.assert_allclose(holm([0.6, 0.7]), [1.0, 1.0], rtol=1e-15)


def test_what_is_undefined_is_no_test() -> None:
    np.testing.assert_allclose(
        holm([[0.01, np.nan], [np.nan, 0.04]]), [[0.02, np.nan], [np.nan, 0.04]], rtol=1e-15
    )
    assert holm([]).shape == (0,)


@given(P_VALUES)
def test_rejections_are_those_of_the_step_down_procedure(p: list[float]) -> None:
    """Holm's own words: go up the ordered p-values while p is at most alpha / (those left)."""
    alpha, order = 0.05, sorted(range(len(p)), key=lambda i: p[i])
    rejected = set()
    for step, place in enumerate(order):
        if p[place] * (len(p) - step) > alpha:
            break
        rejected.add(place)
    assert {i for i, value in enumerate(holm(p)) if value <= alpha} == rejected


@given(P_VALUES)
def test_adjusted_values_are_no_smaller_keep_the_order_and_stay_below_one(p: list[float]) -> None:
    held = holm(p)
    assert (held >= np.array(p)).all()
    assert (held <= 1).all()
    assert (np.diff(held[np.argsort(p, kind="stable")]) >= 0).all()
