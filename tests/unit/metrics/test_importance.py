"""Effects of parameters: against scipy's tests and least squares, and where nothing is fitted."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from sage_cli.metrics.importance import (
    category_column,
    effects,
    fewest_trials,
    numeric_column,
)

RNG = np.random.default_rng


def test_one_category_is_the_f_test_of_ranks():
    """Two groups of five: F = t squared of the ranks, df 1 and 8."""
    groups = [0] * 5 + [1] * 5
    value_M = np.array([1.0, 2.0, 3.0, 4.0, 7.0, 5.0, 6.0, 8.0, 9.0, 10.0])
    # ranks are the values; means 3.4 and 7.6, t by scipy
    t, p = stats.ttest_ind(value_M[:5], value_M[5:])
    (one,) = effects({"x": category_column(groups)}, value_M).values()
    assert one.p == pytest.approx(p)
    # (F - 1) / (F + 8)
    assert one.share == pytest.approx((t**2 - 1) / (t**2 + 8))
    assert one.low < one.share < one.high


def test_intervals_are_those_of_the_noncentral_f():
    value_M = RNG(0).normal(size=20) + np.repeat([0.0, 2.0], 10)
    (one,) = effects({"x": category_column([0] * 10 + [1] * 10)}, value_M).values()
    ranks = stats.rankdata(value_M)
    ratio = stats.ttest_ind(ranks[:10], ranks[10:]).statistic ** 2
    for share, tail in ((one.low, 0.975), (one.high, 0.025)):
        noncentrality = 20 * share / (1 - share)  # share = l / (l + 20)
        assert stats.ncf.cdf(ratio, 1, 18, noncentrality) == pytest.approx(tail, abs=1e-6)


def test_the_other_parameter_is_taken_out():
    x, y = np.repeat([0.0, 1.0], 8), np.tile(np.repeat([0.0, 1.0], 4), 2)
    value_M = 3 * x + 10 * y + RNG(1).normal(size=16) / 10
    found = effects({"x": category_column(list(x)), "y": category_column(list(y))}, value_M)
    assert found["x"].seen
    assert found["y"].seen
    alone = effects({"x": category_column(list(x))}, value_M)
    assert found["x"].share > alone["x"].share  # y's part is no noise any more


def test_p_is_holms_of_the_partial_f_tests():
    """Residual sums of squares by least squares; df 1 and 16 - 3."""
    x, y = np.repeat([0.0, 1.0], 8), np.tile(np.repeat([0.0, 1.0], 4), 2)
    value_M = RNG(3).normal(size=16) + x
    rank_M = stats.rankdata(value_M)

    def left(*columns):
        design = np.stack([np.ones(16), *columns], axis=1)
        return np.linalg.lstsq(design, rank_M, rcond=None)[1][0]

    raw = {
        name: stats.f.sf((left(other) - left(x, y)) / (left(x, y) / 13), 1, 13)
        for name, other in (("x", y), ("y", x))
    }
    found = effects({"x": category_column(list(x)), "y": category_column(list(y))}, value_M)
    least, most = sorted(raw, key=raw.__getitem__)
    assert found[least].p == pytest.approx(2 * raw[least])
    assert found[most].p == pytest.approx(max(2 * raw[least], raw[most]))


def test_a_hill_is_an_effect_though_its_line_is_flat():
    x = np.linspace(0, 1, 15)
    found = effects({"x": numeric_column(x)}, -((x - 0.5) ** 2) + RNG(0).normal(size=15) / 1000)
    assert found["x"].seen
    assert numeric_column([1.0, 2.0, 1.0]).shape == (3, 1)  # two values have no square
    assert numeric_column([2.0, 2.0]).shape == (2, 0)


def test_one_collapsed_trial_is_the_last_and_no_more():
    x = np.linspace(0, 1, 12)
    value_M = x + RNG(2).normal(size=12) / 5
    far_M = np.where(np.arange(12) == value_M.argmin(), -1e9, value_M)
    columns = {"x": numeric_column(x)}
    assert effects(columns, far_M) == effects(columns, value_M)


@pytest.mark.parametrize(
    ("columns", "value_M"),
    [
        ({"x": numeric_column([1, 2, 3, 4, 5])}, np.arange(5.0)),  # 1 + 2 + 3 are needed
        ({"x": numeric_column(range(9))}, np.ones(9)),  # equal values
        ({"x": numeric_column([2.0] * 9)}, np.arange(9.0)),  # not varied
        ({"x": category_column(["a"] * 9)}, np.arange(9.0)),  # one category
        ({"x": numeric_column(range(9)), "y": numeric_column(range(9))}, np.arange(9.0)),  # aliased
        ({}, np.arange(9.0)),
    ],
)
def test_what_cannot_be_told_is_left_out(columns, value_M):
    assert effects(columns, value_M) == {}


def test_a_category_seen_once_and_a_perfect_fit_are_no_errors():
    names = ["a"] * 6 + ["b"]
    found = effects({"x": category_column(names)}, np.array([1, 2, 3, 4, 5, 6, 7.0]))
    assert 0 <= found["x"].share <= 1
    exact = effects({"x": category_column([0] * 4 + [1] * 4)}, np.repeat([0.0, 1.0], 4))
    assert exact["x"].share == pytest.approx(1)
    assert exact["x"].seen


def test_as_many_trials_as_columns_and_four_are_needed():
    x, y = numeric_column(range(6)), category_column(list("aabbcc"))
    assert fewest_trials(x.shape[1] + y.shape[1]) == 1 + 2 + 2 + 3
