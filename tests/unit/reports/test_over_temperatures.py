"""Policies over temperatures, from values of which the tables can be told by hand."""

import numpy as np
import pytest

from sage_cli.metrics.intervals import Resampling
from sage_cli.reports.over_temperatures import OverTemperatures, over_temperatures_document
from sage_cli.reports.provenance import Provenance

KS = (1, 8)
TEMPERATURES = (0.8, 1.0, 1.2)


def passed(*rows):
    """Return (T, P, K) of four problems that are all alike."""
    return np.repeat(np.array(rows)[:, None], 4, axis=1)


def document(of, initial=None):
    initial_P = {} if initial is None else {"dev": np.full(4, initial)}
    found = OverTemperatures(of, TEMPERATURES, 1, KS, Provenance(), initial_P)
    return over_temperatures_document(found, Resampling(resamples=200))


def test_best_temperatures_and_differences_at_equal_pass_at_1():
    found = document(
        {
            ("dev", "trained"): passed((0.5, 0.6), (0.4, 0.7), (0.2, 0.8)),
            ("dev", "initial"): passed((0.35, 0.5), (0.3, 0.7), (0.1, 0.65)),
        },
        initial=0.25,
    ).data
    best = {(one["policy"], one["k"]): one for one in found["best"]}
    assert best["trained", 1]["best T"] == 0.8
    assert best["trained", 8]["best T"] == 1.2
    assert best["initial", 8]["best T"] == 1.0
    equal, at_initial, at_best = found["equal_accuracy"]
    # .3 lies half-way between the trained one's .4 and .2: .75 less .7, at T 1.1
    assert equal["difference"] == pytest.approx(0.05, abs=1e-12)
    assert (equal["policy"], equal["less"]) == ("trained", "initial")
    assert (equal["pass@1"], equal["T"]) == (pytest.approx(0.3), pytest.approx(1.1))
    assert equal["other T"] == pytest.approx(1.0)
    assert len(found["values"]) == 6
    # .25 is 3/4 of the way from .4 to .2: .775, and 1/4 of that from .3 to .1: .6875
    assert at_initial["target"] == "the initial policy's"
    assert at_initial["difference"] == pytest.approx(0.775 - 0.6875)
    assert (at_initial["T"], at_initial["other T"]) == pytest.approx((1.15, 1.05))
    # each at the best temperature of above: .8 less .7
    assert (at_best["target"], at_best["pass@1"]) == ("each at its best T", None)
    assert at_best["difference"] == pytest.approx(0.1)
    assert (at_best["T"], at_best["other T"]) == pytest.approx((1.2, 1.0))


def test_what_is_not_reached_says_so_and_one_policy_has_no_pair():
    found = document(
        {
            ("dev", "a"): passed((0.5, 0.6), (0.45, 0.7), (0.4, 0.8)),
            ("dev", "b"): passed((0.35, 0.5), (0.3, 0.7), (0.1, 0.65)),
        }
    )
    row, best = found.tables[-1].rows  # without an initial policy two targets
    assert "no point of a curve reaches it" in row.cells
    assert best.cells[3].value == pytest.approx(0.1)  # .8 less .7
    alone = document({("dev", "a"): passed((0.5, 0.6), (0.45, 0.7), (0.4, 0.8))})
    assert alone.data["equal_accuracy"] == []
    assert len(alone.tables) == 2
