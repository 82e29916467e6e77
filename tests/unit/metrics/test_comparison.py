"""Differences of models and of methods, and crossings of curves."""

import math
from dataclasses import replace
from itertools import product

import numpy as np
import pytest

from sage_cli.errors import MetricError
from sage_cli.metrics import (
    Counts,
    Side,
    compare_sides,
    curve_ks,
    find_crossing,
    method_difference,
    paired_difference,
    pooled,
)
from sage_cli.metrics.comparison import TrainingSeed, pair_sides
from sage_cli.metrics.counts import STATISTICS
from sage_cli.metrics.crossing import first_below_zero
from sage_cli.metrics.estimators import RIGHT
from sage_cli.metrics.intervals import Resampling, gaffke
from sage_cli.metrics.power import precision

INF = np.inf


def counts(c_P, n=4):
    return Counts(tuple(f"p{i}" for i in range(len(c_P))), np.full(len(c_P), n), np.asarray(c_P))


def test_a_crossing_by_hand():
    # A solves one of two problems always: pass@k = 1/2. B has 1 of 4 on both: 1/4, 1/2, 1 at
    # k = 1, 2, 4. The gap 1/4, 0, -1/2 leaves 0 at k = 2 ...
    a, b = counts([4, 0]), counts([1, 1])
    found = find_crossing(a, b, (1, 2, 4))
    assert (found.leader, found.k) == ("a", pytest.approx(2, abs=1e-12))
    # ... and with k = 1 and 4 alone, a third of the way in log2 k: 2^(2/3).
    assert find_crossing(a, b, (1, 4)).k == pytest.approx(2 ** (2 / 3), abs=1e-12)
    assert find_crossing(b, a, (1, 4)).leader == "b"
    assert find_crossing(b, a, (1, 4)).k == pytest.approx(2 ** (2 / 3), abs=1e-12)
    gap_RK = np.array([[1, 1, -1], [-1, 1, 1], [1, 0, 0], [1, -1, 1], [0, 0, -1], [0, 1, -3]])
    expected = [2**1.5, -INF, INF, 2**0.5, 2, 2**1.25]
    np.testing.assert_allclose(first_below_zero(gap_RK.astype(float), (1, 2, 4)), expected)


def test_curves_that_do_not_cross_have_no_point_but_an_interval():
    found = find_crossing(counts([3] * 20), counts([1] * 20), (1, 2))
    assert (found.leader, found.share) == ("a", 0)
    assert np.isnan(found.k)
    assert (found.low, found.high) == (INF, INF)


@pytest.mark.parametrize("ks", [(1, 2, 4), (1,)])
def test_equal_curves_and_single_ks_have_no_crossing(ks):
    b = counts([2, 2]) if len(ks) > 1 else counts([1, 2])
    found = find_crossing(counts([2, 2]), b, ks)
    assert found.leader == ""
    assert np.isnan([found.k, found.low, found.high, found.share]).all()


@pytest.mark.slow
def test_the_interval_covers_the_populations_crossing():
    """Trained: half of the problems good, the others lost; base: all of them seldom right."""
    generator = np.random.default_rng(8)

    def population(problems):
        base_P = generator.beta(1.2, 12, problems)
        lost_P = generator.random(problems) < 0.45
        return np.where(lost_P, 0.0, generator.beta(3, 5, problems)), base_P

    ks = tuple(2**i for i in range(7))
    trained_M, base_M = population(1_000_000)
    gap_K = [((1 - base_M) ** k - (1 - trained_M) ** k).mean() for k in ks]
    truth = first_below_zero(np.array([gap_K]), ks)[0]
    assert 4 < truth < 64
    covered, repetitions = 0, 300
    for repetition in range(repetitions):
        trained_P, base_P = population(60)
        a, b = (counts(generator.binomial(128, p_P), 128) for p_P in (trained_P, base_P))
        found = find_crossing(a, b, ks, Resampling(resamples=400, seed=repetition))
        covered += found.low <= truth <= found.high
    assert 0.92 <= covered / repetitions <= 0.98
    assert paired_difference(a, b, (1,)).mean_K[0] > 0


@pytest.mark.slow
def test_identical_models_cross_by_chance_and_it_is_not_called_a_crossing():
    generator = np.random.default_rng(3)
    ks, repetitions = curve_ks(64), 200
    crossed = told = 0
    for repetition in range(repetitions):
        p_P = generator.beta(0.5, 1, 60)
        a, b = (counts(generator.binomial(64, p_P), 64) for _ in range(2))
        found = find_crossing(a, b, ks, Resampling(resamples=300, seed=repetition))
        crossed += bool(np.isfinite(found.k))
        told += found.established
    assert crossed / repetitions > 0.3
    assert told / repetitions <= 0.05


def test_a_lead_that_fades_is_no_crossing():
    """Half as likely again at k = 1, and the same at large k, whatever noise does there."""
    generator = np.random.default_rng(5)
    ks, told = curve_ks(64), 0
    for repetition in range(100):
        base_P = np.where(generator.random(60) < 0.5, 0.0, generator.beta(6, 14, 60))
        a = counts(generator.binomial(64, np.minimum(1, 1.5 * base_P)), 64)
        b = counts(generator.binomial(64, base_P), 64)
        told += find_crossing(a, b, ks, Resampling(resamples=300, seed=repetition)).established
    assert told <= 5


def test_a_true_crossing_is_established_with_both_ends():
    # A always solves half of the problems; B has each with p about 1/4: 1/2 = 1 - (3/4)^2.4.
    # The populations meet at log(1/2) / log(3/4) = 2.41 = k.
    generator = np.random.default_rng(1)
    told = 0
    for repetition in range(20):
        a = counts(np.where(generator.random(100) < 0.5, 64, 0), 64)
        b = counts(generator.binomial(64, 0.25, 100), 64)
        found = find_crossing(a, b, curve_ks(64), Resampling(resamples=300, seed=repetition))
        told += found.established
        assert not found.established or 1 < found.low <= found.k <= found.high < 64
    assert told >= 19
    assert 1.5 < found.k < 4


def few_for_many(problems, n):
    """Trained: half of the problems good, the others lost; base: all of them seldom right."""
    generator = np.random.default_rng(8)
    lost_P = generator.random(problems) < 0.5
    trained_P = np.where(lost_P, 0.0, generator.beta(20, 5, problems))
    base_P = generator.beta(4, 16, problems)
    return counts(generator.binomial(n, trained_P), n), counts(generator.binomial(n, base_P), n)


def test_which_ks_are_shown_changes_neither_curves_nor_the_crossing():
    a, b = few_for_many(200, 64)
    found = compare_sides(Side("a", ([a],)), Side("b", ([b],)), (1, 64))
    every = curve_ks(64)
    assert found.shown == (1, 64)
    assert found.curves[0].ks == found.curves[1].ks == found.difference.ks == every
    assert found.crossing == find_crossing(a, b, every)
    # a straight line from k = 1 to 64 meets the other elsewhere
    assert found.crossing.established
    assert 2 < found.crossing.k < 4  # 1/2 = 1 - .8^3.1
    assert find_crossing(a, b, (1, 64)).k < found.crossing.k - 0.2


def test_the_difference_is_paired_by_problem_over_averaged_seeds():
    # pass@1: A 1/4, 4/4; B 0/4, 2/4 -> mean gap (1/4 + 1/2) / 2 = 3/8.
    # pass@2: A 1/2, 1; B 0, 5/6 -> mean gap (1/2 + 1/6) / 2 = 1/3.
    a, b = counts([1, 4]), Counts(("p1", "p0"), [4, 4], [2, 0])
    found = paired_difference(a, b, (1, 2))
    np.testing.assert_allclose(found.mean_K, [3 / 8, 1 / 3], rtol=1e-14)
    assert (found.problems, found.runs) == (2, (1, 1))
    back = paired_difference(b, a, (1, 2))
    np.testing.assert_allclose(back.mean_K, -found.mean_K, rtol=1e-14)
    np.testing.assert_array_equal(back.p_K, found.p_K)
    with pytest.raises(MetricError, match="for example 'p2'"):
        paired_difference(counts([1, 2, 3]), counts([1, 2]), (1,))
    found = paired_difference([counts([0, 0]), counts([4, 0])], counts([1, 0]), (1,))
    assert found.mean_K == pytest.approx([(1 / 2 - 1 / 4) / 2], abs=1e-15)


def test_equal_runs_differ_by_zero_with_an_honest_interval():
    # 60 problems without a difference: a share of more than 1 - 0.025^(1/60) would have shown.
    same = counts([2] * 60)
    found = paired_difference(same, same, (1, 4))
    np.testing.assert_array_equal(found.mean_K, [0, 0])
    np.testing.assert_array_equal(found.p_K, [1, 1])
    np.testing.assert_allclose(found.high_K, 1 - 0.025 ** (1 / 60), rtol=1e-12)
    np.testing.assert_allclose(found.low_K, -found.high_K, rtol=1e-12)
    # All solve everything: 60 problems without a gap, as in a comparison of two models.
    everything = [[counts(np.full(60, 4), 4)] for _ in range(2)]
    found = method_difference(everything, everything, (1, 4))
    np.testing.assert_array_equal(found.p_K, [1, 1])
    np.testing.assert_allclose(found.high_K, 1 - 0.025 ** (1 / 60), rtol=1e-12)


def test_the_safe_interval_is_gaffkes_alone_and_never_narrower():
    gap_P = np.random.default_rng(0).normal(0.05, 0.1, 60)
    base_P = np.full(60, 500)
    better = counts(base_P + np.round(1000 * gap_P).astype(int), 1000)
    found = paired_difference(better, counts(base_P, 1000), (1,))
    ids = sorted(better.problem_ids)
    gaps = (better.ordered(ids).c_P - 500)[:, None] / 1000
    alone = gaffke(gaps, (-1, 1), Resampling())
    assert found.safe is not None
    assert found.safe.low_K == pytest.approx(alone.low_K, abs=1e-12)
    assert found.safe.high_K == pytest.approx(alone.high_K, abs=1e-12)
    assert found.safe.low_K[0] < found.low_K[0] <= found.high_K[0] < found.safe.high_K[0]
    # 2 x 2.0 x .1 / sqrt(60) = .052: not the width of an unseen difference of 1 with a share of .06
    students = 4 * gap_P.std(ddof=1) / 60**0.5
    assert found.high_K[0] - found.low_K[0] == pytest.approx(students, rel=0.1)


def test_a_gain_that_unseen_losses_could_undo_is_fragile():
    def fragile(more, problems=60):
        extra_P = np.where(np.arange(problems) % 2 == 0, more, more - 1)
        better = counts(np.full(problems, 30) + extra_P, 100)
        found = paired_difference(better, counts(np.full(problems, 30), 100), (1,))
        assert found.p_K[0] <= 0.05
        return bool(found.fragile[0])

    # of 60 problems a share of 1 - .025^(1/60) = 6 % may lose everything (.3 and what it gains)
    assert fragile(1)
    assert not fragile(20)  # .06 doesn't undo .195
    assert not fragile(1, problems=3000)  # 1 - .025^(1/3000) = .0012 doesn't undo .005
    same = counts([2] * 60)
    assert not paired_difference(same, same, (1,)).fragile[0]  # nothing was found


def test_thousands_of_problems_stay_in_memory_and_time():
    c_P = np.random.default_rng(0).integers(0, 5, 3_000)
    found = paired_difference(
        counts(c_P), counts(np.minimum(c_P + 1, 4)), (1,), Resampling(resamples=500)
    )
    assert found.p_K[0] == pytest.approx(1 / 501)  # of 500 resamples none came near


def trained(generator, logit_P, seeds, sd=0.5, n=64):
    """Runs of one method: every training seed moves all problems together, and each a little."""
    runs = []
    for _ in range(seeds):
        moved_P = logit_P + generator.normal(0, sd) + generator.normal(0, 0.3, len(logit_P))
        runs.append([counts(generator.binomial(n, 1 / (1 + np.exp(-moved_P))), n)])
    return runs


def test_a_method_has_runs_and_its_difference_a_mean_and_a_p_value():
    generator = np.random.default_rng(1)
    p_P = generator.beta(2, 3, 30)
    runs = [[counts(generator.binomial(256, p_P), 256)] for _ in range(3)]
    better = [[counts(generator.binomial(256, p_P / 2 + 0.5), 256)] for _ in range(2)]
    found = method_difference(better, runs, (1, 4))
    expected = np.mean([r[0].c_P for r in better]) / 256 - np.mean([r[0].c_P for r in runs]) / 256
    assert found.mean_K[0] == pytest.approx(expected, abs=1e-14)
    assert found.runs == (2, 3)
    assert found.p_K[0] < 0.05
    assert found.low_K[0] > 0
    same = method_difference(runs, runs, (1, 4))
    np.testing.assert_array_equal(same.mean_K, [0, 0])
    assert (same.p_K > 0.9).all()
    assert (same.p_K <= 1).all()
    run = [counts(np.array([1, 2]), 4)]
    with pytest.raises(MetricError, match="two models, not of methods"):
        method_difference([run], [run], (1,))


def test_an_interval_against_a_fixed_model_contains_that_of_the_models_at_hand():
    generator = np.random.default_rng(3)
    for _ in range(10):
        logit_P = generator.normal(2, 1.5, 30)
        runs = trained(generator, logit_P + 0.5, 3, sd=0.05)
        (base,) = trained(generator, logit_P, 1, sd=0)
        found = method_difference(runs, [base], (1, 16), Resampling(resamples=400))
        models = paired_difference(
            [run[0] for run in runs], base, (1, 16), Resampling(resamples=400)
        )
        np.testing.assert_allclose(found.mean_K, models.mean_K, atol=1e-14)
        assert (found.low_K <= models.low_K + 1e-12).all()
        assert (found.high_K >= models.high_K - 1e-12).all()
        assert (found.p_K >= models.p_K).all()
        outside_K = (found.low_K > 0) | (found.high_K < 0)
        np.testing.assert_array_equal(outside_K, found.p_K <= 0.05)
        assert found.runs == (3, 1)
        turned = method_difference([base], runs, (1, 16), Resampling(resamples=400))
        np.testing.assert_allclose(turned.low_K, -found.high_K, atol=1e-14)


def test_p_and_interval_agree_and_stay_possible():
    generator = np.random.default_rng(9)
    for paired in (False, True):
        for _ in range(15):
            logit_P = generator.normal(-1, 1.5, 20)
            a_runs, b_runs = trained(generator, logit_P + 0.8, 3), trained(generator, logit_P, 3)
            found = method_difference(
                a_runs, b_runs, (1, 8, 64), Resampling(resamples=400), paired=paired
            )
            outside_K = (found.low_K > 0) | (found.high_K < 0)
            np.testing.assert_array_equal(outside_K, found.p_K <= 0.05)
            assert (found.low_K >= -1).all()
            assert (found.high_K <= 1).all()


def seeded(*numbers, origin="initial"):
    return tuple(
        None if number is None else TrainingSeed(number, origin, f"run-{number}")
        for number in numbers
    )


def method(label, seeds, gain=0.0, problems=40):
    """Runs that a training seed moves alike, whatever their method."""
    logit_P = np.random.default_rng(0).normal(-1, 1.5, problems)
    runs = []
    for seed in seeds:
        generator = np.random.default_rng(100 if seed is None else seed.number)
        moved_P = logit_P + gain + generator.normal(0, 0.5)
        runs.append([counts(generator.binomial(64, 1 / (1 + np.exp(-moved_P))), 64)])
    return Side(label, tuple(runs), seeds=seeds)


def test_methods_with_common_training_seeds_are_paired_by_them():
    a, b = method("a", seeded(1, 2, 4, 7), gain=0.4), method("b", seeded(4, 2, 9, 1))
    found = compare_sides(a, b, (1, 8))
    pairing = found.difference.pairing
    assert pairing is not None
    assert pairing.seeds == (1, 2, 4)
    assert pairing.left_out == ("run-7", "run-9")
    assert found.difference.runs == (3, 3)
    # both sides' means, too, are those of the common seeds
    expected = np.mean([a.runs[place][0].c_P.mean() / 64 for place in (0, 1, 2)])
    assert found.curves[0].mean_K[0] == pytest.approx(expected, abs=1e-14)
    # the same random number for a seed's effect: nearly all of it cancels
    assert pairing.correlation_K[0] > 0.95
    apart = compare_sides(a, b, (1, 8), unpaired=True)
    assert apart.difference.pairing is None
    assert apart.difference.runs == (4, 4)
    width, wide = ((one.difference.high_K - one.difference.low_K)[0] for one in (found, apart))
    assert width < wide / 3
    turned = compare_sides(b, a, (1, 8)).difference
    np.testing.assert_allclose(turned.low_K, -found.difference.high_K, atol=1e-14)


@pytest.mark.parametrize(
    ("a", "b"),
    [
        (seeded(1, 2), seeded(2, 3)),  # one common seed is a pair of models
        (seeded(1, 2), seeded(1, 2, origin="other weights or rows")),
        (seeded(None, None), seeded(None, None)),  # imported: nobody knows what they began with
        ((), ()),
        (seeded(1, 1, 2), seeded(1, 2)),  # which of both runs would be the partner?
    ],
    ids=["one in common", "another origin", "unknown", "unsaid", "twice"],
)
def test_what_is_not_known_to_have_begun_alike_is_not_paired(a, b):
    sides = [Side("x", ([counts([1, 2])],) * max(2, len(seeds)), seeds=seeds) for seeds in (a, b)]
    assert pair_sides(*sides) is None


def test_two_seeds_have_no_correlation_and_bear_no_small_p():
    found = compare_sides(method("a", seeded(1, 2), 0.4), method("b", seeded(1, 2)), (1,))
    assert found.difference.pairing is not None
    assert np.isnan(found.difference.pairing.correlation_K).all()
    assert found.difference.two_seeds
    assert not compare_sides(*(method(x, seeded(1, 2, 3)) for x in "ab"), (1,)).difference.two_seeds


def test_intervals_do_not_depend_on_the_order_of_problems():
    generator = np.random.default_rng(4)
    a, b = (counts(generator.binomial(16, generator.beta(1, 3, 50)), 16) for _ in range(2))
    ids = [a.problem_ids[place] for place in generator.permutation(50)]
    found, other = (
        compare_sides(Side("a", ([x],)), Side("b", ([y],)), (1, 8))
        for x, y in ((a, b), (a.ordered(ids), b.ordered(ids)))
    )
    for x, y in (
        (found.difference, other.difference),
        *zip(found.curves, other.curves, strict=True),
    ):
        np.testing.assert_array_equal(x.low_K, y.low_K)
        np.testing.assert_array_equal(x.high_K, y.high_K)
    np.testing.assert_array_equal(found.difference.p_K, other.difference.p_K)
    assert found.crossing == other.crossing


def test_clusters_have_the_usual_robust_variance():
    generator = np.random.default_rng(7)
    a, b = (counts(generator.binomial(16, generator.beta(1, 3, 30)), 16) for _ in range(2))
    names = dict(zip(a.problem_ids, generator.integers(0, 9, 30).astype(str), strict=True))
    gap_P = (a.c_P - b.c_P) / 16
    sums = {}
    for id_, off in zip(a.problem_ids, gap_P - gap_P.mean(), strict=True):
        sums[names[id_]] = sums.get(names[id_], 0.0) + off
    C = len(sums)
    expected = np.sqrt(C / (C - 1) * sum(total**2 for total in sums.values())) / 30
    found = precision([([[a]], [[b]])], (1,), resampling=Resampling(clusters=names))
    assert found.mean_K[0] == pytest.approx(gap_P.mean(), abs=1e-14)
    assert found.error[0] == pytest.approx(expected, rel=1e-12)
    assert found.sources.freedom_S.tolist() == [C - 1]
    shown = compare_sides(Side("a", ([a],)), Side("b", ([b],)), (1,), Resampling(clusters=names))
    assert shown.difference.clusters == C
    assert shown.difference.safe is None  # its bounds assume independent problems


def test_problems_that_are_told_four_times_say_as_much_as_once():
    generator = np.random.default_rng(8)
    p_P = generator.beta(1, 2, 24)
    once = [counts(generator.binomial(16, p_P**power), 16) for power in (0.8, 1)]
    ids = [f"{id_}-{copy}" for copy in range(4) for id_ in once[0].problem_ids]
    four = [Counts(tuple(ids), np.tile(one.n_P, 4), np.tile(one.c_P, 4)) for one in once]
    told = Resampling(clusters={id_: id_.partition("-")[0] for id_ in ids})
    alone = Resampling(clusters={id_: id_ for id_ in once[0].problem_ids})
    single = paired_difference(*once, (1, 4), alone)
    many = paired_difference(*four, (1, 4), told)
    np.testing.assert_allclose(many.low_K, single.low_K, atol=1e-12)
    np.testing.assert_allclose(many.p_K, single.p_K, atol=1e-12)
    by_problem = paired_difference(*four, (1, 4))
    assert (by_problem.high_K - by_problem.low_K < many.high_K - many.low_K).all()
    for_methods = method_difference([[x] for x in four] * 2, [[four[1]]], (1,), told)
    assert for_methods.clusters == 24


@pytest.mark.parametrize(
    ("clusters", "said"),
    [
        ({"p0": "x"}, "problem 'p1' is in no cluster"),
        ({"p0": "x", "p1": "x"}, "all 2 problems are one cluster"),
    ],
)
def test_clusters_that_say_nothing_are_errors(clusters, said):
    a, b = counts([1, 2]), counts([2, 2])
    with pytest.raises(MetricError, match=said):
        paired_difference(a, b, (1,), Resampling(clusters=clusters))


def test_sides_are_compared_by_the_statistic_of_their_counts():
    by = STATISTICS["pass-all"]
    a, b = (replace(counts(right), statistic=by) for right in ([4, 2], [3, 0]))  # of four samples
    found = paired_difference(a, b, (1, 2))
    # k = 1: (1 - 3/4 + 1/2 - 0) / 2; k = 2: C(4, 2) / 6 - C(3, 2) / 6 and C(2, 2) / 6 - 0
    assert found.mean_K == pytest.approx([3 / 8, (1 / 2 + 1 / 6) / 2])
    seeds = [[a], [b]]
    assert method_difference(seeds, seeds, (2,)).mean_K == pytest.approx([0])
    assert pooled([a, a]).statistic is a.ordered(a.problem_ids[::-1]).statistic is by
    comparison = compare_sides(Side("a", ([a],)), Side("b", ([b],)), (1, 2, 4))
    # pass^4 is 1 where all four are correct, else 0
    assert comparison.curves[0].at(4)[0] == pytest.approx(1 / 2)
    assert comparison.difference.mean_K[-1] == pytest.approx(1 / 2)
    # G-Pass@4: at least two of the four
    of_half = [replace(side, statistic=STATISTICS["g-pass"]) for side in (a, b)]
    assert paired_difference(*of_half, (4,)).mean_K == pytest.approx([(0 + 1) / 2])


@pytest.mark.parametrize("statistic", STATISTICS.values(), ids=STATISTICS)
def test_a_statistic_is_a_share_that_no_samples_and_all_samples_decide(statistic):
    votes = ({"7": 8}, {RIGHT: 5, "7": 3}, {RIGHT: 8})
    of_three = Counts(tuple("abc"), np.full(3, 8), np.array([0, 5, 8]), votes=votes)
    values_PK = statistic.values(of_three, (1, 3, 8))
    assert values_PK.shape == (3, 3)
    assert values_PK[0] == pytest.approx(0)
    assert values_PK[2] == pytest.approx(1)
    assert values_PK[1, 0] == pytest.approx(5 / 8)  # of one sample all are the same
    with pytest.raises(MetricError, match="undefined"):
        statistic.values(of_three, (9,))


MAJ = STATISTICS["maj"]


def voted(*votes):
    """Counts of samples with these final answers."""
    n_c = {f"p{i}": (sum(of.values()), of.get(RIGHT, 0)) for i, of in enumerate(votes)}
    return replace(Counts.of(n_c), votes=tuple(votes), statistic=MAJ)


def test_sides_are_compared_by_a_vote_of_their_answers():
    # k = 1: the share of right samples; k = n: the right answer wins, ties or loses
    a = voted({RIGHT: 5, "7": 3}, {RIGHT: 4, "7": 4}, {RIGHT: 2, None: 6})
    b = voted({RIGHT: 3, "7": 5}, {RIGHT: 3, "7": 2, "9": 3}, {"7": 8})
    found = paired_difference(a, b, (1, 8))
    # 11/24 - 6/24; (1 + 1/2 + 1) / 3 - (0 + 1/2 + 0) / 3
    assert found.mean_K == pytest.approx([5 / 24, 2 / 3])
    # the problems' order doesn't matter, and seeds that are pooled vote together
    turned = b.ordered(["p2", "p0", "p1"])
    assert paired_difference(a, turned, (1, 8)).mean_K == pytest.approx(found.mean_K)
    assert pooled([a, b]).votes[1] == {RIGHT: 7, "7": 6, "9": 3}
    comparison = compare_sides(Side("a", ([a],)), Side("b", ([b],)), (3,))
    assert comparison.difference.ks == (1, 2, 3, 4, 8)  # each k between them costs draws
    with pytest.raises(MetricError, match="only correct and wrong samples were counted"):
        paired_difference(replace(counts([1, 2]), statistic=MAJ), voted({}, {}), (1,))


def maj_at_4(chances):
    """maj@4 of a problem whose right answer and two wrong ones have these chances."""
    total = 0.0
    for drawn in product(range(3), repeat=4):
        votes = [drawn.count(answer) for answer in range(3)]
        if votes[0] == max(votes):
            total += math.prod(chances[answer] for answer in drawn) / votes.count(votes[0])
    return total


def test_the_interval_of_a_difference_of_majorities_covers():
    """Three kinds of problems, whose maj@4 is added up over all 3^4 answers."""
    rng = np.random.default_rng(5)
    a = [(0.8, 0.1, 0.1), (0.4, 0.5, 0.1), (0.3, 0.35, 0.35)]
    b = [(0.6, 0.3, 0.1), (0.5, 0.4, 0.1), (0.1, 0.8, 0.1)]
    truth = np.mean([maj_at_4(p) for p in a]) - np.mean([maj_at_4(p) for p in b])

    def sampled(kinds, kind_P):
        drawn = [rng.multinomial(8, kinds[kind]).tolist() for kind in kind_P]
        return voted(*(dict(zip((RIGHT, "7", "9"), of_one, strict=True)) for of_one in drawn))

    found = []
    for _ in range(200):
        kind_P = rng.integers(3, size=40)  # both sides have the same problems
        sides = sampled(a, kind_P), sampled(b, kind_P)
        found.append(paired_difference(*sides, (4,), Resampling(resamples=200)))
    means = [each.mean_K[0] for each in found]
    assert np.mean(means) == pytest.approx(truth, abs=4 * np.std(means) / 200**0.5)
    covered = sum(each.low_K[0] <= truth <= each.high_K[0] for each in found)
    assert covered >= 180  # 0.95 of 200 are 190, with a deviation of 3.1
