"""The estimate over initial policies, by hand."""

from __future__ import annotations

import math

import numpy as np
import pytest

from sage_cli.errors import MetricError
from sage_cli.metrics.comparisons.over_initial_policies import interactions, over_initial_policies


def test_students_t_over_initial_policies_by_hand():
    # means .01, .02, .03: mean .02, deviation .01, error .01 / 3^.5; the t of 2 degrees of freedom
    # that 5 % exceed is 4.3027; with t = 2 x 3^.5 = 12^.5, p = 1 - t / (2 + t^2)^.5
    found = over_initial_policies([np.array([m]) for m in (0.01, 0.02, 0.03)], [0.0] * 3, 0.95)
    assert found.policies == 3
    assert found.difference == pytest.approx(0.02)
    assert found.high - found.low == pytest.approx(2 * 4.302653 * 0.01 / math.sqrt(3), rel=1e-6)
    assert found.p == pytest.approx(1 - math.sqrt(12 / 14))
    assert found.spread == found.between == pytest.approx(0.01)
    assert math.isnan(found.seeds)
    assert found.problems == 0


def test_seeds_and_problems_are_taken_out_of_the_spread():
    # within: deviations of +-.01 and +-.03, (2 x .0001 + 2 x .0009) / 2 = .001 a seed; means 0,
    # .1: variance .005, of which .001 / 2 are the seeds' and .0004 the problems'
    seeds = [np.array([-0.01, 0.01]), np.array([0.07, 0.13])]
    found = over_initial_policies(seeds, [0.0003, 0.0005], 0.95)
    assert found.spread == pytest.approx(math.sqrt(0.005))
    assert found.seeds == pytest.approx(math.sqrt(0.001))
    assert found.problems == pytest.approx(math.sqrt(0.0004))
    assert found.between == pytest.approx(math.sqrt(0.005 - 0.0005 - 0.0004))


def test_what_explains_more_than_the_spread_leaves_nothing():
    found = over_initial_policies([np.array([-1.0, 1.0]), np.array([-1.0, 1.5])], [0.1, 0.1], 0.95)
    assert found.between == 0


def test_two_initial_policies_have_no_interval_and_one_no_spread():
    two = over_initial_policies([np.array([0.1]), np.array([0.2])], [0.0, 0.0], 0.95)
    assert two.difference == pytest.approx(0.15)
    assert all(map(math.isnan, (two.low, two.high, two.p)))
    assert two.spread == pytest.approx(0.1 / math.sqrt(2))
    one = over_initial_policies([np.array([0.1, 0.3])], [0.0], 0.95)
    assert one.difference == pytest.approx(0.2)
    assert math.isnan(one.spread)
    assert one.seeds == pytest.approx(0.2 / math.sqrt(2))


def test_methods_that_are_the_same_do_not_differ():
    found = over_initial_policies([np.zeros(2)] * 4, [0.0] * 4, 0.95)
    assert (found.difference, found.low, found.high, found.p) == (0, 0, 0, 1)


GRPO = np.array([[0.2, 0.0, 0.2, 0.0], [0.4, 0.2, 0.4, 0.2]])
DAPO = np.array([[0.3, 0.1, 0.5, 0.3], [0.5, 0.3, 0.3, 0.1]])
PSR = np.array([[0.0, 0.0, 0.0, 0.0], [0.1, 0.1, 0.1, 0.1]])
GAINS = {"grpo": GRPO, "dapo": DAPO, "psr": PSR}
MANY = dict(zip("abc", np.random.default_rng(1).normal(0.1, 0.2, (3, 2, 30)), strict=True))
"""Three methods on 30 problems, in which no two resamples tie."""


def test_gains_then_what_is_beyond_the_first() -> None:
    """Means .2, .3, .05 and theirs; less .2 that is .1, -.15, and their mean."""
    found = interactions(GAINS, shared=False)
    assert found.names == (
        "grpo", "dapo", "psr", "mean of all",
        "dapo less grpo", "psr less grpo", "mean of the others less grpo",
    )  # fmt: skip
    expected = [0.2, 0.3, 0.05, 0.55 / 3, 0.1, -0.15, -0.025]
    np.testing.assert_allclose(found.mean_K, expected)
    assert found.names[found.first_interaction] == "dapo less grpo"
    assert (found.policies, found.problems) == (2, 4)


def test_students_t_over_initial_policies() -> None:
    """GRPO's gains are .1 and .3: deviation .1414, error .1; t(1) at 2.5 % is 12.706."""
    found = interactions(GAINS, shared=False)
    np.testing.assert_allclose(
        [found.others.low_K[0], found.others.high_K[0]], [0.2 - 1.2706, 0.2 + 1.2706], atol=1e-4
    )
    # t = 2 with one degree of freedom: p = 1 - 2 arctan(2) / pi
    np.testing.assert_allclose(found.others.p_K[0], 1 - 2 * np.arctan(2) / np.pi)


def test_policies_that_differ_do_not_widen_what_is_about_these() -> None:
    """A constant added to one policy's gains moves the mean and nothing else."""
    moved = {name: gain + np.array([[0.5], [0.0]]) for name, gain in MANY.items()}
    found, after = interactions(MANY, shared=False), interactions(moved, shared=False)
    widths = [one.these.high_K - one.these.low_K for one in (found, after)]
    np.testing.assert_allclose(widths[0], widths[1])
    assert after.others.high_K[0] - after.others.low_K[0] > 3.0


def test_pairing_cancels_what_methods_share() -> None:
    """What a problem adds to both gains leaves the interaction and its interval alone."""
    hard_ZP = np.random.default_rng(0).normal(size=(2, 30))
    common = {name: gain + hard_ZP for name, gain in MANY.items()}
    found, after = interactions(MANY, shared=False), interactions(common, shared=False)
    start = found.first_interaction
    np.testing.assert_allclose(after.mean_K[start:], found.mean_K[start:])
    np.testing.assert_allclose(after.these.low_K[start:], found.these.low_K[start:], atol=1e-9)
    np.testing.assert_allclose(after.others.high_K[start:], found.others.high_K[start:], atol=1e-9)


def test_shared_problems_are_resampled_together() -> None:
    """Opposite gains on the same problems cancel in each, and no problem tells them apart."""
    gain_ZP = np.array([[0.3, -0.1, 0.2, 0.0], [-0.3, 0.1, -0.2, 0.0]]) + 0.1
    gains = {"grpo": np.array([[0.0, 0.1, 0.0, 0.1]] * 2), "dapo": gain_ZP}
    together, apart = (interactions(gains, shared=shared) for shared in (True, False))
    # every problem's mean is .1: the sample carries no variance, so no interval either
    assert np.isinf(together.these.high_K[1])
    assert np.isfinite(apart.these.high_K[1])


@pytest.mark.parametrize("shared", [False, True])
def test_one_initial_policy_says_nothing_of_others(shared: bool) -> None:
    """Only problems vary; the interval for other policies is unknown."""
    found = interactions({name: gain[:1] for name, gain in MANY.items()}, shared=shared)
    assert np.isnan(found.others.low_K).all()
    assert np.isfinite(found.these.low_K).all()


@pytest.mark.parametrize("gains", [{"grpo": GRPO}, {"grpo": GRPO[:, :1], "dapo": DAPO[:, :1]}])
def test_too_few_methods_or_problems(gains: dict[str, np.ndarray]) -> None:
    """Neither has anything to compare, or anything to resample."""
    with pytest.raises(MetricError, match="says nothing"):
        interactions(gains, shared=False)
