"""Gains over the initial policy at equal pass@1, by hand and against the other computation."""

from __future__ import annotations

import numpy as np
import pytest

from sage_cli.metrics.comparisons.equal_accuracy import EqualAccuracy, Points, equal_accuracy
from sage_cli.metrics.comparisons.hull import gain_by_problem
from sage_cli.metrics.comparisons.objective import (
    by_problem,
    objective_intervals,
    objective_values,
)
from sage_cli.metrics.counts.exact import Worked
from sage_cli.metrics.intervals.interval import Resampling
from sage_cli.settings.objective import parse_objective


def worked(policy: object, initial: object) -> Worked:
    policy_TP, initial_TP = np.asarray(policy, float), np.asarray(initial, float)
    ids = tuple(f"p{place}" for place in range(policy_TP.shape[1]))
    return Worked(ids, policy_TP, initial_TP, 0)


def test_worked_pass_at_k_by_hand() -> None:
    one = worked([[0.5, 0.1], [0.2, 0.2]], [[0.3, 0.1], [0.2, 0.1]])
    # 1 - .5^2 = .75, 1 - .9^2 = .19
    assert by_problem(parse_objective("exact@2"), one) == pytest.approx([0.75, 0.19], abs=1e-14)
    # .5 (.5, .1) + .5 (.75, .19)
    both = by_problem(parse_objective("0.5*exact@1+0.5*exact@2"), one)
    assert both == pytest.approx([0.625, 0.145], abs=1e-14)


def test_the_gain_of_alike_problems_by_hand() -> None:
    # all problems alike: nothing changes without one of them. The initial policy is right with .2
    # at the first temperature; the policy with .4 and .1, so .2 lies two thirds on the way.
    one = worked([[0.4] * 3, [0.1] * 3], [[0.2] * 3, [0.1] * 3])
    # k = 2: the policy's 1 - .6^2 = .64 and 1 - .9^2 = .19, at two thirds .34; less 1 - .8^2 = .36
    assert gain_by_problem(one, 2) == pytest.approx([-0.02] * 3, abs=1e-12)


def test_where_no_temperature_reaches_it_the_highest_counts() -> None:
    # the policy is at .4 or .3 and the initial policy at .2: .3's 1 - .7^2 = .51 less .36
    assert gain_by_problem(worked([[0.4] * 3, [0.3] * 3], [[0.2] * 3, [0.1] * 3]), 2) == (
        pytest.approx([0.15] * 3, abs=1e-12)
    )
    # a collapsed policy at .05, the initial one at least at .1: .0975 less .19
    assert gain_by_problem(worked([[0.05] * 3, [0.01] * 3], [[0.2] * 3, [0.1] * 3]), 2) == (
        pytest.approx([-0.0925] * 3, abs=1e-12)
    )


@pytest.mark.parametrize("seed", range(3))
def test_its_mean_is_the_jackknifes_and_near_the_estimate(seed: int) -> None:
    generator = np.random.default_rng(seed)
    powers_T1 = np.linspace(1, 3, 9)[:, None]
    initial_P, own_P = generator.beta(0.4, 1.2, 80), generator.beta(0.5, 1.0, 80)
    one = worked(own_P**powers_T1, initial_P**powers_T1)
    points = [
        Points.of(*one.points(chances_TP, 64)) for chances_TP in (one.policy_TP, one.initial_TP)
    ]
    found = equal_accuracy(points[0], points[1:], np.arange(9.0), 0, Resampling(resamples=500))
    assert isinstance(found, EqualAccuracy)
    values_P = gain_by_problem(one, 64)
    assert values_P.mean() == pytest.approx(found.difference, abs=0.01)
    # the interval is that of the mean of the same pseudo-values
    objective = parse_objective("gain@64")
    ((low, high),) = objective_intervals(
        objective_values(objective, [[{"dev": one}]]), Resampling(resamples=500)
    )
    assert high - low == pytest.approx(found.high - found.low, rel=1e-9)


def test_the_initial_policy_gains_nothing_over_itself() -> None:
    chances_TP = [[0.5, 0.1, 0.3], [0.4, 0.1, 0.2]]
    values = objective_values(
        parse_objective("gain@8"), [[{"dev": worked(chances_TP, chances_TP)}]]
    )
    assert objective_intervals(values) == ((0.0, 0.0),)
    assert (values.lowest, values.highest) == (-1, 1)


def test_problems_are_matched_by_name() -> None:
    one = worked([[0.5, 0.1], [0.4, 0.1]], [[0.3, 0.2], [0.2, 0.1]])
    turned = one.ordered(("p1", "p0"))
    assert turned.policy_TP.tolist() == [[0.1, 0.5], [0.1, 0.4]]
    assert gain_by_problem(turned, 8)[::-1] == pytest.approx(gain_by_problem(one, 8), abs=1e-14)
