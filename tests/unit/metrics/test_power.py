""""""

from itertools import product
from math import comb

import numpy as np
import pytest
from scipy.stats import betabinom, t, ttest_1samp

from sage_cli.metrics import Counts, paired_difference, pass_at_k
from sage_cli.metrics.differences import method_difference
from sage_cli.metrics.error_sources import by_run, error_over
from sage_cli.metrics.power import (
    HETEROGENEITY,
    Design,
    Population,
    estimator_variance,
    fit_beta,
    multiple,
    precision,
    smallest_changes,
    variation_of_pairs,
    variation_of_sides,
)


def test_the_estimators_variance_and_the_smallest_difference_in_errors():
    # n = 2, k = 1, p = 1/2: c/2 is 0, 1/2, 1 with chances 1/4, 1/2, 1/4: variance 1/8;
    # k = 2: right unless c = 0: 3/4 x 1/4
    np.testing.assert_allclose(estimator_variance(np.zeros(1), 2, [1, 2]), [[1 / 8, 3 / 16]])
    n, k, p = 7, 3, 0.3
    chances = [comb(n, c) * p**c * (1 - p) ** (n - c) for c in range(n + 1)]
    values = pass_at_k(np.full(n + 1, n), np.arange(n + 1), k)
    expected = np.dot(chances, values**2) - np.dot(chances, values) ** 2
    found = estimator_variance(np.array([np.log(p / (1 - p))]), n, [k])
    assert found[0, 0] == pytest.approx(expected, rel=1e-10)
    for problems in (2, 30, 1_000):
        expected = t.ppf([0.975, 0.8], problems - 1).sum()
        assert multiple(problems - 1) == pytest.approx(expected, rel=1e-9)


ALL = 64


def counts(c_P, n=ALL):
    return Counts(tuple(f"p{i}" for i in range(len(c_P))), np.full(len(c_P), n), c_P)


def drawn(generator, logit_P, n=ALL):
    return counts(generator.binomial(n, 1 / (1 + np.exp(-logit_P))), n)


def test_two_models_by_hand_and_as_a_paired_t_test():
    # gaps of pass@1: 1/4, 1/4, -1/4, 1/2; mean 3/16, squares about it (1+1+49+25)/256 = 76/256
    a, b = counts(np.array([2, 3, 1, 4]), 4), counts(np.array([1, 2, 2, 2]), 4)
    found = precision([([[a]], [[b]])], (1,))
    assert found.mean_K[0] == pytest.approx(3 / 16, abs=1e-15)
    assert found.error[0] == pytest.approx(np.sqrt(76 / 256 / 3 / 4), rel=1e-12)
    assert found.sources.freedom_S.tolist() == [3]
    expected = ttest_1samp(np.array([1, 1, -1, 2]) / 4, 0)
    assert found.p()[0] == pytest.approx(expected.pvalue, rel=1e-9)
    low_K, high_K = found.interval(0.95)
    interval = expected.confidence_interval(0.95)
    assert (low_K[0], high_K[0]) == pytest.approx((interval.low, interval.high), rel=1e-9)


def test_what_has_no_error_is_undefined():
    same = counts(np.array([1, 2, 3]), 4)
    found = precision([([[same]], [[same]])], (1, 4))
    for part_K in (found.error, found.smallest(), found.p(), *found.interval()):
        assert np.isnan(part_K).all()
    # gaps of 3/4 and -1/4: an error of 1/2 and 12.7 + 1.4 of it, which no difference can be
    two = precision([([[counts(np.array([4, 0]), 4)]], [[counts(np.array([1, 1]), 4)]])], (1,))
    assert two.error[0] == pytest.approx(0.5, abs=1e-15)
    assert np.isnan(two.smallest()[0])
    one = counts(np.array([1]), 4)
    assert np.isnan(precision([([[one]], [[one]])], (1,)).error).all()


def test_the_average_of_benchmarks_adds_their_variances():
    generator = np.random.default_rng(0)
    pairs = [[drawn(generator, generator.normal(0, 1.5, P)) for _ in range(2)] for P in (20, 45)]
    each = [precision([([[a]], [[b]])], (1, 8)) for a, b in pairs]
    both = precision([([[a]], [[b]]) for a, b in pairs], (1, 8))
    np.testing.assert_allclose(both.mean_K, (each[0].mean_K + each[1].mean_K) / 2, rtol=1e-12)
    np.testing.assert_allclose(
        both.error, np.sqrt(each[0].error ** 2 + each[1].error ** 2) / 2, rtol=1e-12
    )
    assert both.sources.freedom_S.tolist() == [19, 44]


def test_training_seeds_are_part_of_the_error():
    """Simulated: the error is the deviation that repetitions show, with three seeds a side."""
    generator = np.random.default_rng(5)
    repetitions, P, T = 200, 40, 3
    means, errors = [], []
    for _ in range(repetitions):
        logit_P = generator.normal(-1, 1.5, P)
        sides = [
            [[drawn(generator, logit_P + generator.normal(0, 0.4))] for _ in range(T)]
            for _ in range(2)
        ]
        found = precision([(sides[0], sides[1])], (1,))
        means.append(found.mean_K[0])
        errors.append(found.error[0] ** 2)
    # the deviation of 200 repetitions is known to within 1 / sqrt(400) = 5 %
    assert np.sqrt(np.mean(errors)) == pytest.approx(np.std(means, ddof=1), rel=0.15)


@pytest.mark.parametrize(
    ("a_gains", "b_gains"),
    [((0.0, 0.0), (0.0, 0.0)), ((0.0, 0.2), (0.0, 0.2)), ((0.2, 0.5, 0.8), (0.0,)),
     ((0.0,), (0.2, 0.5, 0.8))],
    ids=["runs that happen to be alike", "two seeds", "against a base", "a base against runs"],
)  # fmt: skip
def test_what_is_detectable_belongs_to_the_interval_beside_it(a_gains, b_gains):
    generator = np.random.default_rng(11)
    logit_P = generator.normal(-1, 1.5, 60)
    a, b = ([[drawn(generator, logit_P + gain)] for gain in gains] for gains in (a_gains, b_gains))
    found, shown = precision([(a, b)], (1, 8)), method_difference(a, b, (1, 8))
    np.testing.assert_allclose(found.interval(), (shown.low_K, shown.high_K), rtol=1e-9)
    np.testing.assert_allclose(found.detectable(shown), found.smallest(), rtol=1e-9)
    assert (found.smallest() > (shown.high_K - shown.low_K) / 2).all()
    if len(a) != len(b):  # runs .3 logits apart: far wider than of the very models
        pooled = [[run[0] for run in side] for side in (a, b)]
        models = paired_difference(*pooled, (1, 8))
        assert (shown.high_K - shown.low_K > 1.5 * (models.high_K - models.low_K)).all()


@pytest.mark.parametrize("sign", [1, -1])
def test_where_few_problems_differ_detectable_is_what_the_interval_can_find(sign):
    """58 of 60 problems are equal: Student's error is tiny, and the test isn't Student's."""
    gap_P = np.zeros(60, dtype=int)
    gap_P[:2] = np.array([3, -2]) * sign
    a, b = counts(32 + gap_P), counts(np.full(60, 32))
    found, shown = precision([([[a]], [[b]])], (1,)), paired_difference(a, b, (1,))
    reach = float(max((shown.high_K - shown.mean_K)[0], (shown.mean_K - shown.low_K)[0]))
    assert found.smallest()[0] < 0.01 < 0.05 < reach
    assert found.detectable(shown)[0] == pytest.approx(reach, rel=0.1)
    assert found.detectable(shown)[0] > 5 * found.smallest()[0]


def test_several_benchmarks_and_seeds_by_hand():
    """pass@1 on two benchmarks, two runs a side; B is right as often in either run.

    A's runs on the first: .5 .5 and 1 1 on two problems, on the second .5 .5 .5 and .5 .5 .5.
    Means over benchmarks: .5 and .75, variance .03125, over two runs .015625, and B's 0. The gaps
    don't differ among problems, and nothing else varies: the error is .125.
    """

    def side(first, second):
        return [[counts(np.full(2, c), 4)] for c in (first, second)]

    def flat():
        return [[counts(np.full(3, 2), 4)] for _ in range(2)]

    found = precision([(side(2, 4), side(2, 2)), (flat(), flat())], (1,))
    assert found.mean_K[0] == pytest.approx(0.125, abs=1e-15)
    assert found.error[0] == pytest.approx(0.125, abs=1e-15)
    assert found.sources.freedom_S.tolist() == [1, 1, 1, 2]  # the runs of A and B, the problems


EPSILON = 1e-9


def base(problems=200, n=256, seed=0):
    """Counts of problems whose success probabilities are Beta(0.4, 1)."""
    generator = np.random.default_rng(seed)
    c_P = generator.binomial(n, generator.beta(0.4, 1.0, problems))
    return Counts(tuple(f"p{i}" for i in range(problems)), np.full(problems, n), c_P)


def probability(logit_L):
    return 1 / (1 + np.exp(-logit_L))


def test_the_fitted_beta_is_the_likeliest_and_near_the_truth():
    counts = base(problems=400, n=64)
    a, b = fit_beta(counts)
    assert (a, b) == pytest.approx((0.4, 1.0), rel=0.2)

    def likelihood(a, b):
        return float(betabinom.logpmf(counts.c_P, counts.n_P, a, b).sum())

    for x, y in product((0.95, 1, 1.05), repeat=2):
        assert likelihood(a, b) >= likelihood(a * x, b * y) - EPSILON


def test_what_cannot_be_seen_is_undefined_and_a_base_may_be_never_right():
    never = Counts(tuple(f"p{i}" for i in range(30)), [16] * 30, [0] * 30)
    smallest_QK = smallest_changes(Population.from_counts(never), [Design(30, 16)], (1,))
    assert 0 < smallest_QK[0, 0] < 0.5
    population = Population.from_counts(base())
    found_QK = smallest_changes(population, [Design(1, 64), Design(5, 8), Design(5, 64)], (1, 64))
    assert np.isnan(found_QK[0]).all()  # one problem says nothing of others
    assert np.isnan(found_QK[1, 1])  # k > n
    assert np.isnan(found_QK[2, 1])  # five problems, most of them solved: no room for a gain
    assert found_QK[2, 0] > 0


def test_more_of_anything_sees_more():
    population, ks = Population.from_counts(base()), (1, 8)
    kinds = list(product((30, 120), (16, 64), (1, 3)))
    found_QK = smallest_changes(population, [Design(*kind) for kind in kinds], ks)
    smallest = dict(zip(kinds, found_QK, strict=True))
    for P, n, S in kinds:
        for more in ((120, n, S), (P, 64, S), (P, n, 3)):
            assert (smallest[more] <= smallest[P, n, S] + EPSILON).all()
    few, many = smallest[30, 16, 1][0], smallest[120, 16, 1][0]
    # a quarter of the variance: half, but for the larger t of fewer problems and a change of p
    assert many == pytest.approx(few / 2, rel=0.15)


@pytest.mark.parametrize(("design", "k"), [(Design(60, 16), 1), (Design(100, 64), 16)])
@pytest.mark.slow
def test_the_smallest_change_is_detected_in_about_80_of_100_repetitions(design, k):
    """Studies drawn from the fitted population, their true mean change being the stated one."""
    population, generator = Population.from_counts(base()), np.random.default_rng(design.problems)
    ((stated,),) = smallest_changes(population, [design], (k,))
    before = 1 - (1 - probability(population.logit_L)) ** k
    shifts = np.linspace(-1, 4, 101)
    changes = [1 - (1 - probability(population.shifted(u))) ** k - before for u in shifts]
    shift = float(np.interp(stated, [change.mean() for change in changes], shifts))
    ids = tuple(map(str, range(design.problems)))
    n_P = np.full(design.problems, design.samples)
    detected, repetitions = 0, 600
    for _ in range(repetitions):
        logit_P = generator.choice(population.logit_L, design.problems)
        moved_P = logit_P + shift + HETEROGENEITY * generator.standard_normal(design.problems)
        trained, base_ = (
            [
                Counts(ids, n_P, generator.binomial(design.samples, probability(side_P)))
                for _ in range(design.seeds)
            ]
            for side_P in (moved_P, logit_P)
        )
        detected += precision([([trained], [base_])], (k,)).p()[0] <= 0.05
    # repetitions alone scatter by .016; the test is Student's, the differences are skewed
    assert 0.74 <= detected / repetitions <= 0.88


def test_what_seeds_and_problems_add_by_hand():
    # Pairs differ by 0 and .2 on all problems, and problems by 0 and .1 in all pairs: no rest.
    # Between seeds .02, over 4 seeds .005 with 3 degrees of freedom; between problems .005 (its
    # mean gaps .1 and .2), over 30 problems 1/6000 with 29.
    seed_I, problem_P = np.array([0.0, 0.2])[:, None, None], np.array([0.0, 0.1])[:, None]
    variation = variation_of_pairs(seed_I + problem_P, np.zeros((2, 2, 1)))
    assert variation.seeds[0][0] == pytest.approx(0.02, rel=1e-12)
    assert variation.problems_K[0] == pytest.approx(0.005, rel=1e-12)
    assert variation.rest_K[0] == pytest.approx(0, abs=1e-15)
    parts = [(0.005, 3), (0.005 / 30, 29)]
    expected = sum(
        np.sqrt(sum(v * t.ppf(level, free) ** 2 for v, free in parts)) for level in (0.975, 0.8)
    )
    assert variation.detectable(4, 30)[0] == pytest.approx(expected, rel=1e-9)
    assert np.isnan(variation.detectable(1, 30)[0])  # one seed says nothing of others


def test_what_is_detectable_over_seeds_is_what_compare_states():
    generator = np.random.default_rng(3)
    logit_P = generator.normal(-1, 1.5, 40)
    sides = [
        [[drawn(generator, logit_P + shift)] for shift in shifts]
        for shifts in ((0.1, 0.3, 0.4), (0.3, 0.0, 0.1))
    ]
    ids = sides[0][0][0].problem_ids
    a_IPK, b_IPK = (by_run(side, ids, (1, 8)) for side in sides)
    stated = precision([tuple(sides)], (1, 8), paired=True).smallest()
    np.testing.assert_allclose(
        variation_of_pairs(a_IPK, b_IPK).detectable(3, 40), stated, rtol=1e-9
    )
    stated = precision([tuple(sides)], (1, 8)).smallest()
    found = variation_of_sides([a_IPK, b_IPK]).detectable(3, 40)
    np.testing.assert_allclose(found, stated, rtol=0.02)  # each side's own rest is averaged there


@pytest.mark.parametrize("paired", [True, False])
@pytest.mark.slow
def test_numbers_of_training_seeds_find_the_stated_difference(paired):
    """Planned from many seeds, simulated with six: found in about 80 of 100 repetitions."""
    generator, P, correlation = np.random.default_rng(12), 60, 0.8 if paired else 0.0

    def pairs(seeds, gain, logit_P):
        shared_I = generator.normal(size=(seeds, 1))
        sides = []
        for shift in (gain, 0.0):
            own_I = generator.normal(size=(seeds, 1))
            effect_I = 0.1 * (correlation**0.5 * shared_I + (1 - correlation) ** 0.5 * own_I)
            p_IP = 1 / (1 + np.exp(-logit_P - shift - effect_I))
            sides.append(generator.binomial(ALL, p_IP)[..., None] / ALL)
        return sides

    known = pairs(200, 0.0, generator.normal(-1, 1.5, P))
    variation = variation_of_pairs(*known) if paired else variation_of_sides(known)
    stated = variation.detectable(6, P)[0]
    low, high = 0.0, 3.0
    for _ in range(30):
        gain = (low + high) / 2
        p_M = generator.normal(-1, 1.5, 20_000)
        change = np.mean(1 / (1 + np.exp(-p_M - gain)) - 1 / (1 + np.exp(-p_M)))
        low, high = (gain, high) if change < stated else (low, gain)
    found = 0
    for _ in range(400):
        a_IPK, b_IPK = pairs(6, gain, generator.normal(-1, 1.5, P))
        sources = error_over([(a_IPK, b_IPK)], paired=paired)
        found += sources.p((a_IPK - b_IPK).mean(axis=(0, 1)))[0] <= 0.05
    # 400 repetitions scatter by .02; a gain in logits isn't the same on all problems
    assert 0.72 <= found / 400 <= 0.92
