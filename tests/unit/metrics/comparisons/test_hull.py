"""Gaps at equal pass@1, by hand."""

import numpy as np
import pytest

from sage_cli.metrics.comparisons.hull import Curve, gap_along_steps, gap_over_temperatures


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
