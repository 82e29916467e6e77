from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from sage_cli.metrics.intervals.distributions import holm

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
