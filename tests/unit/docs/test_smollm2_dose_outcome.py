"""The outcome of the study smollm2-dose, by its declared rule."""

import numpy as np
import pytest
from dose_outcome import (
    JUDGE,
    Found,
    Measured,
    at_equal_accuracy,
    equal_gap,
    of_one_machine,
    outcome,
)

MOVED = Found(-0.03, -0.05, -0.01, 4)
STILL = Found(-0.01, -0.03, 0.01, 4)


@pytest.mark.parametrize(
    ("low", "high", "seeds", "control", "q", "expected"),
    [
        (0.001, 0.014, 8, MOVED, 1.25, "differs"),  # and equivalent: this comes first
        (-0.05, -0.02, 8, STILL, 1.0, "differs"),  # found in spite of a weak dose
        (-0.01, 0.014, 8, MOVED, 1.25, "equivalent"),
        (-0.01, 0.016, 8, MOVED, 1.25, "undecided"),
        (-0.016, 0.01, 6, MOVED, 1.2, "undecided"),
        (-0.01, 0.014, 8, STILL, 1.25, "not tested"),
        (-0.01, 0.014, 8, None, 1.25, "not tested"),
        (-0.01, 0.016, 8, MOVED, 1.19, "not tested"),
        (-0.01, 0.014, 8, MOVED, float("nan"), "not tested"),
        (0.01, 0.02, 5, MOVED, 1.25, "not tested"),
    ],
)
def test_the_declared_outcomes(low, high, seeds, control, q, expected):
    assert outcome(Found((low + high) / 2, low, high, seeds), control, q).startswith(expected)


def line(method, seed, adapter="a", *, ended=True):
    return {
        "unit": f"{method} {seed}",
        "method": method,
        "seed": seed,
        "ended": ended,
        "policy": f"{method}-{seed}-{adapter}",
        "steps": {"reward": [0.1]},
        "made_with": {"adapter": adapter, "result_version": 1},
    }


def test_arms_of_a_seed_come_from_one_initial_policy():
    lines = [
        line("anchor", 1, "a"),
        line("branch", 1, "b"),
        line("anchor", 1, "b"),
        line("anchor", 2),
        line("branch", 2),
        line("control", 2),
        line("branch", 2, "b"),
        line("anchor", 3),
        line("branch", 3, ended=False),
        line("anchor", 101),
        line("branch", 101),
    ]
    found = {
        (one["seed"], one["method"], one["made_with"]["adapter"]) for one in of_one_machine(lines)
    }
    assert found == {
        (1, "branch", "b"),
        (1, "anchor", "b"),
        (2, "anchor", "a"),
        (2, "branch", "a"),
        (2, "control", "a"),
    }


def rows(policy, temperature, right):
    return [
        {
            "policy": policy,
            "temperature": temperature,
            "benchmark": benchmark,
            "problem": problem,
            "n": 16,
            "c": c if benchmark == JUDGE else 16,
        }
        for benchmark in (JUDGE, "smollm2/test.jsonl")
        for problem, c in right.items()
    ]


def test_differences_are_paired_by_seed_and_count_formulas():
    """Branch has 1, 2 and 3 right samples more of each problem, whatever its anchor's seed has."""
    trainings = [line(method, seed) for seed in (1, 2, 3) for method in ("anchor", "branch")]
    counted = []
    for one in trainings:
        right = {f"p{number}": (number + 4 * one["seed"]) % 9 for number in range(40)}
        more = one["seed"] if one["method"] == "branch" else 0
        counted += rows(one["policy"], 1.0, {name: c + more for name, c in right.items()})
    measured = Measured(counted, trainings)
    found = measured.difference("branch", "anchor", 1)
    assert (found.mean, found.seeds) == (pytest.approx(2 / 16), 3)
    # problems have equal gaps, so that seeds alone vary: t(.975, 2) = 4.3027 times the standard
    # error of 1/16, 2/16 and 3/16, whose deviation is 1/16
    half = 4.302653 / 16 / 3**0.5
    assert (found.low, found.high) == pytest.approx((1 / 8 - half, 1 / 8 + half), abs=1e-6)
    assert measured.difference("control", "anchor") is None


def test_a_gap_at_equal_pass_1_by_hand():
    curve_TK = np.array([[0.3, 0.5], [0.2, 0.6], [0.1, 0.4]])
    # half way between pass@1 .2 and .3 the curve has (.6 + .5) / 2
    assert equal_gap(np.array([0.25, 0.6]), curve_TK) == pytest.approx(0.05)
    assert np.isnan(equal_gap(np.array([0.31, 0.6]), curve_TK))


def test_at_equal_pass_1_a_policy_that_is_another_temperatures_has_no_gap():
    """Over the problems that were measured at every temperature."""
    trainings = [line(method, seed) for seed in (1, 2) for method in ("anchor", "branch")]
    at = {0.8: {"x": 8, "y": 6}, 1.0: {"x": 4, "y": 4}, 1.2: {"x": 1, "y": 3}}
    counted = [
        row
        for seed in (1, 2)
        for temperature, right in at.items()
        for row in rows(
            f"anchor-{seed}-a", temperature, right | ({"w": 9} if temperature == 1 else {})
        )
    ]
    for seed in (1, 2):
        counted += rows(f"branch-{seed}-a", 1.0, at[1.0] | {"w": 2})
    found = at_equal_accuracy(Measured(counted, trainings))
    assert (found.mean, found.low, found.high) == pytest.approx((0, 0, 0), abs=1e-12)
    without = [row for row in counted if row["temperature"] != 0.8]
    assert at_equal_accuracy(Measured(without, trainings)) is None
