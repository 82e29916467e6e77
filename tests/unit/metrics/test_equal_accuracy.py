"""pass@k at equal pass@1 over temperatures, with intervals over problems."""

import numpy as np
import pytest

from sage_cli.errors import MetricError
from sage_cli.metrics.equal_accuracy import (
    EqualAccuracy,
    NotReached,
    Points,
    best_temperatures,
    equal_accuracy,
    gap_over_temperatures,
)
from sage_cli.metrics.intervals import Resampling

TEMPERATURES = (1.0, 1.2, 1.4)
HOW = Resampling(resamples=400, seed=1)
SHARP = [0.5, 0.4, 0.2], [0.7, 0.8, 0.9]
BROAD = [0.35, 0.3, 0.1], [0.8, 0.85, 0.9]


def curve(accuracy, pass_k, shift=0.0):
    """The same values on each of five problems."""
    return Points(np.tile(accuracy, (5, 1)), np.tile(pass_k, (5, 1)) + shift)


def compared(policy, other):
    found = equal_accuracy(policy, other, TEMPERATURES, 0, HOW)
    assert isinstance(found, EqualAccuracy)
    return found


def test_the_sharper_policy_is_taken_at_a_higher_temperature():
    found = compared(curve(*BROAD), curve(*SHARP))
    # the sharp one has .35 a quarter of the way from .4 to .2: T 1.25, .8 + .25 (.9 - .8) = .825
    assert found.accuracy == pytest.approx(0.35)
    assert (found.at, found.other_at) == pytest.approx((1.0, 1.25))
    assert found.difference == pytest.approx(0.8 - 0.825)
    # all problems are alike, so nothing varies
    assert (found.low, found.high) == pytest.approx((found.difference, found.difference))
    turned = compared(curve(*SHARP), curve(*BROAD))
    assert turned.difference == pytest.approx(-found.difference)


def test_equal_policies_and_what_cannot_be_compared():
    found = compared(curve(*SHARP), curve(*SHARP))
    assert (found.at, found.other_at) == (1.0, 1.0)
    assert (found.difference, found.p) == (0, 1)
    high = curve([0.9, 0.8, 0.7], [0.95, 0.95, 0.95])
    found = equal_accuracy(curve(*BROAD), high, TEMPERATURES, 0, HOW)
    assert found == NotReached("no point of a curve reaches it")
    other = Points(np.tile(SHARP[0], (4, 1)), np.tile(SHARP[1], (4, 1)))
    with pytest.raises(MetricError, match="have the shapes"):
        equal_accuracy(curve(*BROAD), other, TEMPERATURES, 0, HOW)


def test_resamples_that_do_not_reach_it_are_counted_and_too_many_refused():
    """The policy's .3 is reached at the highest temperature by a little more than half."""
    odd = np.where(np.arange(40) % 2, 1.0, -1.0)[:, None]
    flat = np.tile([0.3, 0.25, 0.2], (40, 1)), np.tile([0.8, 0.85, 0.9], (40, 1))
    policy = Points(*flat)

    def above(end):
        accuracy_PX = np.tile([0.5, 0.4, end], (40, 1)) + 0.1 * odd * [0, 0, 1]
        return Points(accuracy_PX, flat[1])

    # the mean at the end varies by .1 / sqrt(40) = .016: .28 is 1.3 of that below .3, so about a
    # tenth of the resamples don't get there; .26 is 2.5 below, less than a hundredth
    refused = equal_accuracy(policy, above(0.28), TEMPERATURES, 0, HOW)
    assert isinstance(refused, NotReached)
    assert refused.reason.endswith("of 400 resamples don't reach it")
    found = compared(policy, above(0.26))
    assert 0 < found.unreached < 0.05 * 400
    assert found.resamples == 400


def test_an_interval_that_few_problems_carry_ends_at_1():
    """One problem of 40 tells the two apart: many resamples have no variance."""
    flat = np.tile(SHARP[0], (40, 1)), np.tile(SHARP[1], (40, 1))
    lower = flat[1].copy()
    lower[0] -= 0.4
    found = compared(Points(flat[0], lower), Points(*flat))
    assert found.difference == pytest.approx(-0.4 / 40)
    assert (found.low, found.high) == (-1, 1)


def test_the_interval_holds_the_truth_as_often_as_it_says():
    """Two policies whose problems' chances fall with temperature; true values by many problems."""

    def drawn(generator, problems):
        hard = generator.normal(-1, 1.5, problems)
        policies = []
        for gain, spread in ((0.6, 0.3), (0.0, 0.5)):
            logit = hard + gain + generator.normal(0, spread, problems)
            p_PT = 1 / (1 + np.exp(-(logit[:, None] - 3 * (np.array(TEMPERATURES) - 1))))
            policies.append(Points(p_PT, 1 - (1 - p_PT) ** 64))
        return policies

    def flat(one):
        """The population's means, as two problems."""
        means = [part.mean(axis=0, keepdims=True) for part in (one.accuracy_PT, one.pass_k_PT)]
        return Points(*(mean_1T.repeat(2, axis=0) for mean_1T in means))

    generator = np.random.default_rng(5)
    truth = compared(*map(flat, drawn(generator, 200_000))).difference
    held = 0
    for _ in range(200):
        found = compared(*drawn(generator, 150))
        held += found.low <= truth <= found.high
    assert held >= 180  # 190 are expected; with a true .95 fewer than 180 come once in 500


def test_resamples_have_targets_and_interpolated_places_of_their_own():
    """Of two resamples, at three temperatures; the second one is the evaluation's."""
    policy = np.array([[0.25, 0.20, 0.10]]), np.array([[0.70, 0.74, 0.78]])
    other = np.array([[0.24, 0.22, 0.12]] * 2), np.array([[0.66, 0.70, 0.75]] * 2)
    both = tuple(np.concatenate([values, values - 0.02]) for values in policy)
    found = gap_over_temperatures((both[0], both[1]), other, at=1)
    assert found.target_R.tolist() == pytest.approx([0.20, 0.18])
    # the other has .20 at 1/5 of the way from .22 to .12: .70 + .2 x .05 = .71, less than .74; at
    # .18 it is 2/5 of the way: .72, as the policy has
    assert found.difference_R.tolist() == pytest.approx([0.03, 0.0])
    assert found.place_R.tolist() == pytest.approx([1, 1])
    assert found.other_place_R.tolist() == pytest.approx([1.2, 1.4])
    policy = np.array([[0.34, 0.30, 0.18]]), np.array([[0.60, 0.66, 0.75]])
    other = np.array([[0.25, 0.20, 0.10]]), np.array([[0.70, 0.74, 0.78]])
    found = gap_over_temperatures(policy, other, at=0)
    # .25 lies 5/12 of the way from .30 to .18: .66 + 5/12 x .09 = .6975
    assert found.difference_R == pytest.approx(0.6975 - 0.70)
    assert found.place_R == pytest.approx(1 + 5 / 12)
    late = np.array([[0.5, 0.4, 0.3]]), np.array([[0.9, 0.9, 0.9]])
    assert np.isnan(gap_over_temperatures(policy, late, at=2).difference_R).all()


def test_a_third_policys_pass_at_1_is_a_target_of_its_own():
    """Its mean is resampled with the problems: problems that vary there widen the interval."""
    both = curve(*SHARP), curve(*BROAD, shift=0.02)
    flat, varied = (
        equal_accuracy(*both, TEMPERATURES, 0, HOW, np.array(third))
        for third in ([0.25] * 5, [0.22, 0.235, 0.25, 0.265, 0.28])
    )
    for gap in (flat, varied):
        assert isinstance(gap, EqualAccuracy)
        # .25 is 3/4 of .4 to .2: .875; 1/4 of .3 to .1: .87 + .25 x .05 = .8825
        assert (gap.accuracy, gap.difference) == pytest.approx((0.25, 0.875 - 0.8825))
        assert (gap.at, gap.other_at) == pytest.approx((1.35, 1.25))
    assert flat.high - flat.low == pytest.approx(0)
    assert varied.high - varied.low > 0.001


def test_at_best_temperatures_each_side_is_taken_at_its_own():
    generator = np.random.default_rng(3)
    noise_P1 = generator.normal(0, 0.1, (40, 1))
    flat_PT = np.tile(SHARP[0], (40, 1))
    policy = Points(flat_PT, np.tile([0.5, 0.6, 0.4], (40, 1)) + noise_P1)
    other = Points(flat_PT, np.tile([0.3, 0.4, 0.45], (40, 1)))
    gap = best_temperatures(policy, other, TEMPERATURES, HOW)
    assert isinstance(gap, EqualAccuracy)
    assert (gap.at, gap.other_at, gap.unreached) == (1.2, 1.4, 0)
    assert np.isnan(gap.accuracy)
    assert gap.difference == pytest.approx(0.6 - 0.45 + noise_P1.mean())
    # at fixed temperatures it is a mean of 40 differences: 2 x .1 / sqrt(40) = .032 to either side
    assert (gap.high - gap.low) / 2 == pytest.approx(0.032, abs=0.01)
