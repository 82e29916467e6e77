"""Gaps at equal pass@1, by hand."""

from __future__ import annotations

import numpy as np
import pytest

from sage_cli.metrics.comparisons.equal_accuracy import EqualAccuracy, Points, equal_accuracy
from sage_cli.metrics.comparisons.hull import (
    Curve,
    gain_by_problem,
    gap_along_steps,
    gap_over_temperatures,
)
from sage_cli.metrics.comparisons.objective import (
    by_problem,
    objective_intervals,
    objective_values,
)
from sage_cli.metrics.counts.exact import Worked
from sage_cli.metrics.intervals.interval import Resampling
from sage_cli.settings.objective import parse_objective


def curve(accuracy: list[float], passed: list[float]) -> Curve:
    return np.array([accuracy]), np.array([passed])


# at three temperatures, the second of which is where the policies are sampled
POLICY = curve([0.25, 0.20, 0.10], [0.70, 0.74, 0.78])
WEAK = curve([0.34, 0.30, 0.18], [0.60, 0.66, 0.75])
STRONG = curve([0.24, 0.22, 0.12], [0.66, 0.70, 0.75])


def test_the_policy_is_taken_as_it_is_and_the_others_hotter():
    found = gap_over_temperatures(POLICY, [WEAK, STRONG], at=1)
    assert found.target_R == [0.20]
    # weak: (.30 - .20) / (.30 - .18) = 5/6 of the way to the third: .66 + 5/6 x .09 = .735;
    # strong: (.22 - .20) / (.22 - .12) = 1/5: .70 + .2 x .05 = .71; the hull is .735
    assert found.difference_R == pytest.approx(0.74 - 0.735)
    assert found.best_R == [0]
    assert found.place_R == pytest.approx(1)
    assert found.best_place_R == pytest.approx(1 + 5 / 6)


def test_the_policy_is_taken_hotter_where_it_is_right_more_often():
    found = gap_over_temperatures(WEAK, [STRONG, POLICY], at=1)
    # the larger of .22 and .20 is the target: 2/3 of the way from .30 to .18, .66 + 2/3 x .09 = .72
    # strong has .70 there, and the policy, between .25 and .20, .70 + .6 x .04 = .724
    assert found.target_R == [0.22]
    assert found.difference_R == pytest.approx(0.72 - 0.724)
    assert found.best_R == [1]
    assert found.best_place_R == pytest.approx(0.6)


def test_curves_that_do_not_reach_the_target_are_not_in_the_hull():
    late = curve([0.5, 0.4, 0.3], [0.9, 0.9, 0.9])
    found = gap_over_temperatures(POLICY, [late, STRONG], at=1)
    assert found.best_R == [1]
    assert found.difference_R == pytest.approx(0.74 - 0.71)
    alone = gap_over_temperatures(POLICY, [late], at=1)
    assert np.isnan(alone.difference_R).all()


def test_resamples_have_targets_of_their_own():
    policy = tuple(np.concatenate([values, values - 0.02]) for values in POLICY)
    other = tuple(np.concatenate([values, values]) for values in STRONG)
    found = gap_over_temperatures(policy, [other], at=1)
    assert found.target_R.tolist() == pytest.approx([0.20, 0.18])
    # at .18 strong is 2/5 of the way from .22 to .12: .70 + .4 x .05 = .72, and the policy .72
    assert found.difference_R.tolist() == pytest.approx([0.03, 0.0])


def test_along_steps_pass_at_1_is_made_to_rise():
    # .20 and .18 become .19 and .19, which the policy reaches first at the second step
    policy = curve([0.16, 0.20, 0.18, 0.21], [0.76, 0.74, 0.75, 0.75])
    other = curve([0.16, 0.20, 0.24, 0.23], [0.76, 0.73, 0.72, 0.73])
    found = gap_along_steps(policy, [other])
    # the policy ends at .21, which the other passes a quarter of the way to .235
    assert found.target_R == pytest.approx([0.21])
    share = (0.21 - 0.20) / (0.235 - 0.20)
    assert found.difference_R == pytest.approx(0.75 - (0.73 - share * 0.01))
    assert found.place_R == pytest.approx(3)
    assert found.best_place_R == pytest.approx(1 + share)


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
