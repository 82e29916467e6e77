"""pass@k at equal pass@1: over temperatures and steps, with intervals over problems and seeds."""

from __future__ import annotations

import numpy as np
import pytest

from sage_cli.errors import MetricError
from sage_cli.metrics.comparisons.equal_accuracy import (
    EqualAccuracy,
    NotReached,
    Points,
    equal_accuracy,
)
from sage_cli.metrics.intervals.interval import Resampling

TEMPERATURES = np.array([1.0, 1.2, 1.4])
HOW = Resampling(resamples=400, seed=1)
SHARP = [0.5, 0.4, 0.2], [0.7, 0.8, 0.9]
BROAD = [0.35, 0.3, 0.1], [0.8, 0.85, 0.9]


def curve(accuracy: list[float], pass_k: list[float], shift: float = 0.0) -> Points:
    """The same values on each of five problems."""
    return Points.of(np.tile(accuracy, (5, 1)), np.tile(pass_k, (5, 1)) + shift)


def compared(policy: Points, *others: Points, at: int | None = 0) -> EqualAccuracy:
    found = equal_accuracy(policy, others, TEMPERATURES, at, HOW)
    assert isinstance(found, EqualAccuracy)
    return found


def test_the_sharper_policy_is_taken_at_a_higher_temperature() -> None:
    found = compared(curve(*BROAD), curve(*SHARP))
    # the sharp one has .35 a quarter of the way from .4 to .2: T 1.25, .8 + .25 (.9 - .8) = .825
    assert found.accuracy == pytest.approx(0.35)
    assert (found.at, found.best_at) == pytest.approx((1.0, 1.25))
    assert found.difference == pytest.approx(0.8 - 0.825)
    # all problems are alike, so nothing varies
    assert (found.low, found.high) == pytest.approx((found.difference, found.difference))
    turned = compared(curve(*SHARP), curve(*BROAD))
    assert turned.difference == pytest.approx(-found.difference)


def test_equal_policies_are_compared_where_they_are() -> None:
    found = compared(curve(*SHARP), curve(*SHARP))
    assert (found.at, found.best_at) == (1.0, 1.0)
    assert (found.difference, found.p) == (0, 1)


def test_the_best_of_several_counts() -> None:
    better = curve(SHARP[0], SHARP[1], shift=0.05)
    found = compared(curve(*BROAD), curve(*SHARP), better)
    assert found.best == 1
    assert found.difference == pytest.approx(0.8 - 0.875)


def test_along_steps_the_target_is_what_both_reach() -> None:
    slow = curve([0.2, 0.3, 0.3], [0.9, 0.84, 0.82])
    fast = curve([0.2, 0.25, 0.4], [0.9, 0.8, 0.74])
    found = equal_accuracy(slow, [fast], np.array([0.0, 10.0, 20.0]), None, HOW)
    assert isinstance(found, EqualAccuracy)
    # both reach .3: slow at step 10, fast a third of the way from .25 to .4: .8 - .06 / 3 = .78
    assert (found.accuracy, found.at) == pytest.approx((0.3, 10))
    assert found.best_at == pytest.approx(10 + 10 / 3)
    assert found.difference == pytest.approx(0.84 - 0.78)


def test_a_pass_at_1_that_is_never_reached_is_named() -> None:
    high = curve([0.9, 0.8, 0.7], [0.95, 0.95, 0.95])
    found = equal_accuracy(curve(*BROAD), [high], TEMPERATURES, 0, HOW)
    assert found == NotReached("no temperature reaches it")


def test_resamples_that_do_not_reach_it_are_counted_and_too_many_refused() -> None:
    """The policy's .3 is reached at the highest temperature by a little more than half."""
    odd = np.where(np.arange(40) % 2, 1.0, -1.0)[:, None]
    flat = np.tile([0.3, 0.25, 0.2], (40, 1)), np.tile([0.8, 0.85, 0.9], (40, 1))
    policy = Points.of(*flat)

    def above(end: float) -> Points:
        accuracy_PX = np.tile([0.5, 0.4, end], (40, 1)) + 0.1 * odd * [0, 0, 1]
        return Points.of(accuracy_PX, flat[1])

    # the mean at the end varies by .1 / sqrt(40) = .016: .28 is 1.3 of that below .3, so about a
    # tenth of the resamples don't get there; .26 is 2.5 below, less than a hundredth
    refused = equal_accuracy(policy, [above(0.28)], TEMPERATURES, 0, HOW)
    assert isinstance(refused, NotReached)
    assert refused.reason.endswith("of 400 resamples don't reach it")
    found = compared(policy, above(0.26))
    assert 0 < found.unreached < 0.05 * 400
    assert found.resamples == 400


def test_seeds_are_pairs_and_their_spread_is_in_the_interval() -> None:
    def seeds(shifts: list[float]) -> Points:
        each = [curve(*BROAD, shift=shift) for shift in shifts]
        accuracy_SPX = np.concatenate([one.accuracy_SPX for one in each])
        return Points(accuracy_SPX, np.concatenate([one.pass_k_SPX for one in each]))

    found = compared(seeds([0.01, 0.03]), seeds([0.0, 0.0]))
    assert found.by_seed == pytest.approx((0.01, 0.03))
    assert found.difference == pytest.approx(0.02)
    # problems are alike; the seeds' mean has the standard error .01 with one degree of freedom,
    # whose t is 12.706
    assert found.high - found.difference == pytest.approx(12.706 * 0.01, rel=1e-3)


def test_an_interval_that_few_problems_carry_ends_at_1() -> None:
    """One problem of 40 tells the two apart: many resamples have no variance."""
    flat = np.tile(SHARP[0], (40, 1)), np.tile(SHARP[1], (40, 1))
    lower = flat[1].copy()
    lower[0] -= 0.4
    found = compared(Points.of(flat[0], lower), Points.of(*flat))
    assert found.difference == pytest.approx(-0.4 / 40)
    assert (found.low, found.high) == (-1, 1)


def test_curves_of_unequal_problems_are_refused() -> None:
    other = Points.of(np.tile(SHARP[0], (4, 1)), np.tile(SHARP[1], (4, 1)))
    with pytest.raises(MetricError, match="have the shapes"):
        equal_accuracy(curve(*BROAD), [other], TEMPERATURES, 0, HOW)


def test_the_interval_holds_the_truth_as_often_as_it_says() -> None:
    """Two policies whose problems' chances fall with temperature; true values by many problems."""

    def drawn(generator: np.random.Generator, problems: int) -> list[Points]:
        hard = generator.normal(-1, 1.5, problems)
        policies = []
        for gain, spread in ((0.6, 0.3), (0.0, 0.5)):
            logit = hard + gain + generator.normal(0, spread, problems)
            p_PT = 1 / (1 + np.exp(-(logit[:, None] - 3 * (TEMPERATURES - 1))))
            policies.append(Points.of(p_PT, 1 - (1 - p_PT) ** 64))
        return policies

    def flat(one: Points) -> Points:
        """The population's means, as two problems."""
        means = [part.mean(axis=1, keepdims=True) for part in (one.accuracy_SPX, one.pass_k_SPX)]
        return Points(*(mean_S1X.repeat(2, axis=1) for mean_S1X in means))

    generator = np.random.default_rng(5)
    truth = compared(*map(flat, drawn(generator, 200_000))).difference
    held = 0
    for _ in range(200):
        found = compared(*drawn(generator, 150))
        held += found.low <= truth <= found.high
    assert held >= 180  # 190 are expected; with a true .95 fewer than 180 come once in 500
