from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import t, ttest_1samp

from sage_cli.metrics import Counts, paired_difference, pass_at_k
from sage_cli.metrics.comparisons.differences import method_difference
from sage_cli.metrics.design.precision import precision
from sage_cli.metrics.intervals.interval import Resampling

ALL = 64


def counts(c_P: np.ndarray, n: int = ALL) -> Counts:
    return Counts(tuple(f"p{i}" for i in range(len(c_P))), np.full(len(c_P), n), c_P)


def drawn(generator: np.random.Generator, logit_P: np.ndarray, n: int = ALL) -> Counts:
    return counts(generator.binomial(n, 1 / (1 + np.exp(-logit_P))), n)


def test_two_models_by_hand_and_as_a_paired_t_test() -> None:
    # gaps of pass@1: 1/4, 1/4, -1/4, 1/2; mean 3/16, squares about it (1+1+49+25)/256 = 76/256
    a, b = counts(np.array([2, 3, 1, 4]), 4), counts(np.array([1, 2, 2, 2]), 4)
    found = precision([([[a]], [[b]])], (1,))
    assert found.mean_K[0] == pytest.approx(3 / 16, abs=1e-15)
    assert found.error_K[0] == pytest.approx(np.sqrt(76 / 256 / 3 / 4), rel=1e-12)
    assert found.freedom_K[0] == pytest.approx(3, rel=1e-12)
    expected = ttest_1samp(np.array([1, 1, -1, 2]) / 4, 0)
    assert found.p()[0] == pytest.approx(expected.pvalue, rel=1e-9)
    low_K, high_K = found.interval(0.95)
    interval = expected.confidence_interval(0.95)
    assert (low_K[0], high_K[0]) == pytest.approx((interval.low, interval.high), rel=1e-9)


def test_what_has_no_error_is_undefined() -> None:
    same = counts(np.array([1, 2, 3]), 4)
    found = precision([([[same]], [[same]])], (1, 4))
    for part_K in (found.error_K, found.smallest(), found.p(), *found.interval()):
        assert np.isnan(part_K).all()
    # gaps of 3/4 and -1/4: an error of 1/2 and 12.7 + 1.4 of it, which no difference can be
    two = precision([([[counts(np.array([4, 0]), 4)]], [[counts(np.array([1, 1]), 4)]])], (1,))
    assert two.error_K[0] == pytest.approx(0.5, abs=1e-15)
    assert np.isnan(two.smallest()[0])
    one = counts(np.array([1]), 4)
    assert np.isnan(precision([([[one]], [[one]])], (1,)).error_K).all()


def test_the_average_of_benchmarks_adds_their_variances() -> None:
    generator = np.random.default_rng(0)
    pairs = [[drawn(generator, generator.normal(0, 1.5, P)) for _ in range(2)] for P in (20, 45)]
    each = [precision([([[a]], [[b]])], (1, 8)) for a, b in pairs]
    both = precision([([[a]], [[b]]) for a, b in pairs], (1, 8))
    np.testing.assert_allclose(both.mean_K, (each[0].mean_K + each[1].mean_K) / 2, rtol=1e-12)
    np.testing.assert_allclose(
        both.error_K, np.sqrt(each[0].error_K ** 2 + each[1].error_K ** 2) / 2, rtol=1e-12
    )
    # Satterthwaite (1946): (v1 + v2)^2 / (v1^2 / 19 + v2^2 / 44)
    v1_K, v2_K = (one.error_K**2 for one in each)
    np.testing.assert_allclose(
        both.freedom_K, (v1_K + v2_K) ** 2 / (v1_K**2 / 19 + v2_K**2 / 44), rtol=1e-12
    )


@pytest.mark.parametrize(("problems", "n", "k"), [(30, 16, 1), (60, 64, 8)])
@pytest.mark.slow
def test_the_smallest_difference_is_detected_in_about_80_of_100_repetitions(
    problems: int, n: int, k: int
) -> None:
    """With the test that `compare` prints, where the truth is what studies of it would state."""
    generator = np.random.default_rng(problems + n + k)
    population = generator.normal(-1, 1.6, 20_000)
    estimates_C = pass_at_k(np.full(n + 1, n), np.arange(n + 1), k)

    def studies(shift: float, count: int) -> tuple[np.ndarray, np.ndarray]:
        logit_RP = generator.choice(population, (count, problems))
        chances = (1 / (1 + np.exp(-logit_RP - s)) for s in (shift, 0.0))
        a_RP, b_RP = (generator.binomial(n, chance_RP) for chance_RP in chances)
        return a_RP, b_RP

    def truth(shift: float) -> float:
        after, before = (1 - (1 + np.exp(population + s)) ** -float(k) for s in (shift, 0.0))
        return float((after - before).mean())

    shift = 0.4
    for _ in range(5):  # towards the shift whose true difference is the one stated
        a_RP, b_RP = studies(shift, 2_000)
        deviation_R = (estimates_C[a_RP] - estimates_C[b_RP]).std(axis=1, ddof=1)
        stated = t.ppf([0.975, 0.8], problems - 1).sum() * deviation_R.mean() / np.sqrt(problems)
        shift *= stated / truth(shift)
    p, said = [], []
    for a_P, b_P in zip(*studies(shift, 120), strict=True):
        a, b = counts(a_P, n), counts(b_P, n)
        p.append(paired_difference(a, b, (k,), Resampling(resamples=500)).p_K[0])
        said.append(precision([([[a]], [[b]])], (k,)).smallest()[0])
    assert np.mean(said) == pytest.approx(truth(shift), rel=0.05)
    # 120 repetitions alone scatter by sqrt(.8 x .2 / 120) = .037
    assert np.mean(np.array(p) <= 0.05) == pytest.approx(0.8, abs=0.1)


def test_training_seeds_are_part_of_the_error() -> None:
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
        errors.append(found.error_K[0] ** 2)
    # the deviation of 200 repetitions is known to within 1 / sqrt(400) = 5 %
    assert np.sqrt(np.mean(errors)) == pytest.approx(np.std(means, ddof=1), rel=0.15)


def test_what_is_detectable_belongs_to_the_interval_beside_it() -> None:
    """Four runs that happen to be alike: the error is still the one that the interval has."""
    generator = np.random.default_rng(11)
    logit_P = generator.normal(-1, 1.5, 60)
    sides = [[[drawn(generator, logit_P)] for _ in range(2)] for _ in range(2)]
    found, shown = precision([(sides[0], sides[1])], (1, 8)), method_difference(*sides, (1, 8))
    np.testing.assert_allclose(found.interval(), (shown.low_K, shown.high_K), rtol=1e-12)
    assert (found.smallest() > (shown.high_K - shown.low_K) / 2).all()


def test_what_is_detectable_against_a_base_counts_the_seeds_in() -> None:
    generator = np.random.default_rng(12)
    logit_P = generator.normal(-1, 1.5, 60)
    runs = [[drawn(generator, logit_P + shift)] for shift in (0.2, 0.5, 0.8)]
    base = [[drawn(generator, logit_P)]]
    found, shown = precision([(runs, base)], (1,)), method_difference(runs, base, (1,))
    np.testing.assert_allclose(found.interval(), (shown.low_K, shown.high_K), rtol=1e-9)
    # three runs .3 logits apart: far wider than of the very models
    models = paired_difference([run[0] for run in runs], base[0], (1,))
    assert shown.high_K - shown.low_K > 1.5 * (models.high_K - models.low_K)


def test_over_training_seeds_detectable_is_students() -> None:
    generator = np.random.default_rng(11)
    logit_P = generator.normal(-1, 1.5, 60)
    sides = [[[drawn(generator, logit_P + 0.2 * seed)] for seed in range(2)] for _ in range(2)]
    for a, b in (sides, sides[::-1]):
        found, shown = precision([(a, b)], (1, 8)), method_difference(a, b, (1, 8))
        np.testing.assert_allclose(found.detectable(shown), found.smallest(), rtol=1e-9)


@pytest.mark.parametrize("sign", [1, -1])
def test_where_few_problems_differ_detectable_is_what_the_interval_can_find(sign: int) -> None:
    """58 of 60 problems are equal: Student's error is tiny, and the test isn't Student's."""
    gap_P = np.zeros(60, dtype=int)
    gap_P[:2] = np.array([3, -2]) * sign
    a, b = counts(32 + gap_P), counts(np.full(60, 32))
    found, shown = precision([([[a]], [[b]])], (1,)), paired_difference(a, b, (1,))
    reach = float(max((shown.high_K - shown.mean_K)[0], (shown.mean_K - shown.low_K)[0]))
    assert found.smallest()[0] < 0.01 < 0.05 < reach
    assert found.detectable(shown)[0] == pytest.approx(reach, rel=0.1)
    assert found.detectable(shown)[0] > 5 * found.smallest()[0]


def test_several_benchmarks_and_seeds_by_hand() -> None:
    """pass@1 on two benchmarks, two runs a side; B is right as often in either run.

    A's runs on the first: .5 .5 and 1 1 on two problems, on the second .5 .5 .5 and .5 .5 .5.
    Means over benchmarks: .5 and .75, variance .03125; pooled with B's 0: .015625. Times
    1/2 + 1/2 that is .015625 between runs. The gaps don't differ among problems, and nothing else
    varies: the error is .125, with the two degrees of freedom of the runs.
    """

    def side(first: int, second: int) -> list[list[Counts]]:
        return [[counts(np.full(2, c), 4)] for c in (first, second)]

    def flat() -> list[list[Counts]]:
        return [[counts(np.full(3, 2), 4)] for _ in range(2)]

    found = precision([(side(2, 4), side(2, 2)), (flat(), flat())], (1,))
    assert found.mean_K[0] == pytest.approx(0.125, abs=1e-15)
    assert found.error_K[0] == pytest.approx(0.125, abs=1e-15)
    assert found.freedom_K[0] == pytest.approx(2, abs=1e-12)
