from __future__ import annotations

from collections.abc import Callable
from math import comb

import numpy as np
import pytest

from sage_cli.errors import MetricError
from sage_cli.metrics import Counts, curve, pass_at_k, variance_components
from sage_cli.metrics.intervals.bands import sampling_variance
from sage_cli.metrics.intervals.interval import Resampling
from sage_cli.metrics.intervals.resampling import resampled_means

KS = (1, 8, 64)
Population = Callable[[np.random.Generator, int], np.ndarray]


def drawn(p_P: np.ndarray, n: int, generator: np.random.Generator) -> Counts:
    ids = tuple(f"p{i}" for i in range(len(p_P)))
    return Counts(ids, np.full(len(p_P), n), generator.binomial(n, p_P))


def hard(generator: np.random.Generator, problems: int) -> np.ndarray:
    """A third of the problems out of reach, the rest mostly hard."""
    return np.where(generator.random(problems) < 1 / 3, 0.0, generator.beta(0.4, 3.0, problems))


def even(generator: np.random.Generator, problems: int) -> np.ndarray:
    return generator.beta(1.0, 1.0, problems)


@pytest.mark.parametrize(
    ("population", "problems", "ks"),
    [(hard, 60, (1, 8, 64)), (even, 60, (1, 4)), (even, 134, (1, 8))],
)
@pytest.mark.slow
def test_the_band_covers_the_population_mean(
    population: Population, problems: int, ks: tuple[int, ...]
) -> None:
    generator = np.random.default_rng(11)
    p_M = population(generator, 2_000_000)
    truth_K = np.array([(1 - (1 - p_M) ** k).mean() for k in ks])
    repetitions = 600
    covered_K = np.zeros(len(ks))
    widths_RK, means_RK = [], []
    for repetition in range(repetitions):
        counts = drawn(population(generator, problems), 64, generator)
        band = curve(counts, ks, Resampling(resamples=600, seed=repetition))
        covered_K += (band.low_K <= truth_K) & (truth_K <= band.high_K)
        widths_RK.append(band.high_K - band.low_K)
        means_RK.append(band.mean_K)
    assert (covered_K / repetitions >= 0.93).all(), covered_K / repetitions
    # a normal interval that knew the true standard error is 2 x 1.96 of them wide
    ideal_K = 3.92 * np.std(means_RK, axis=0)
    assert (np.mean(widths_RK, axis=0) <= 1.5 * ideal_K).all()


def test_the_mean_is_the_mean_over_problems_and_seeds() -> None:
    # pass@2: (4,1) -> 1/2, (4,2) -> 1 - 1/6 = 5/6; the other seed (4,0) -> 0, (4,4) -> 1.
    one = Counts(("a", "b"), [4, 4], [1, 2])
    two = Counts(("b", "a"), [4, 4], [4, 0])
    assert curve(one, (2,)).mean_K == pytest.approx([2 / 3], abs=1e-15)
    assert curve([one, two], (2,)).mean_K == pytest.approx([7 / 12], abs=1e-15)


def test_resampled_means_vary_as_the_unbiased_variance_says() -> None:
    values_PK = np.array([[0.0, 1.0], [0.0, 0.0], [1.0, 0.5], [0.25, 0.5]])
    means_RK = resampled_means(values_PK, Resampling(resamples=200_000, seed=1))
    np.testing.assert_allclose(means_RK.mean(axis=0), values_PK.mean(axis=0), atol=2e-3)
    np.testing.assert_allclose(means_RK.var(axis=0), values_PK.var(axis=0, ddof=1) / 4, rtol=0.02)


def test_blocks_do_not_change_the_shape_or_the_spread(monkeypatch: pytest.MonkeyPatch) -> None:
    values_PK = np.random.default_rng(0).random((50, 2))
    monkeypatch.setattr("sage_cli.metrics.intervals.resampling.BLOCK", 333)
    means_RK = resampled_means(values_PK, Resampling(resamples=20_000, seed=1))
    assert means_RK.shape == (20_000, 2)
    np.testing.assert_allclose(means_RK.var(axis=0), values_PK.var(axis=0, ddof=1) / 50, rtol=0.05)


def test_a_band_contains_its_mean_and_narrows_with_confidence() -> None:
    counts = drawn(even(np.random.default_rng(3), 40), 64, np.random.default_rng(4))
    wide, narrow = curve(counts, (1, 8)), curve(counts, (1, 8), Resampling(confidence=0.5))
    assert (wide.low_K < narrow.low_K).all()
    assert (narrow.low_K < narrow.mean_K).all()
    assert (narrow.mean_K < narrow.high_K).all()
    assert (narrow.high_K < wide.high_K).all()
    np.testing.assert_array_equal(wide.mean_K, pass_at_k(64, counts.c_P, (1, 8)).mean(axis=0))


def test_all_zeros_and_all_ones_still_have_an_interval() -> None:
    # 60 problems never solved: the population mean m obeys (1 - m)^60 >= 0.025.
    ids = tuple(map(str, range(60)))
    none = curve(Counts(ids, [8] * 60, [0] * 60), (1, 8))
    assert none.low_K.tolist() == [0, 0]
    np.testing.assert_allclose((1 - none.high_K) ** 60, 0.025, rtol=1e-12)
    everything = curve(Counts(ids, [8] * 60, [8] * 60), (1, 8))
    assert everything.high_K.tolist() == [1, 1]
    np.testing.assert_allclose(everything.low_K, 1 - none.high_K, rtol=1e-12)


def test_one_problem_has_no_band_and_none_has_no_mean() -> None:
    lone = curve(Counts(("a",), [8], [3]), (1,))
    assert lone.mean_K.tolist() == [3 / 8]
    assert np.isnan([*lone.low_K, *lone.high_K]).all()
    with pytest.raises(MetricError, match="no problem"):
        curve(Counts((), [], []), (1,))


def test_same_seed_same_band() -> None:
    counts = drawn(even(np.random.default_rng(3), 40), 64, np.random.default_rng(4))
    assert curve(counts, KS).high_K.tolist() == curve(counts, KS).high_K.tolist()
    assert (
        curve(counts, KS).high_K.tolist() != curve(counts, KS, Resampling(seed=1)).high_K.tolist()
    )
    assert curve(counts, KS).at(8)[0] == curve(counts, KS).mean_K[1]
    with pytest.raises(MetricError, match="no k = 3"):
        curve(counts, KS).at(3)


@pytest.mark.parametrize(
    ("a", "b", "problems", "k"), [(0.05, 1.0, 30, 1), (1.0, 2.0, 30, 64), (2.0, 0.3, 60, 64)]
)
@pytest.mark.slow
def test_covers_where_values_sit_near_0_or_1(a: float, b: float, problems: int, k: int) -> None:
    # 1 - E (1-p)^k with p Beta(a, b): 1 - B(a, b + k) / B(a, b), here by its recursion over k.
    truth = 1 - np.prod([(b + i) / (a + b + i) for i in range(k)])
    generator = np.random.default_rng(4)
    covered, repetitions = 0, 300
    for repetition in range(repetitions):
        counts = drawn(generator.beta(a, b, problems), 256, generator)
        band = curve(counts, (k,), Resampling(resamples=600, seed=repetition))
        covered += bool(band.low_K[0] <= truth <= band.high_K[0])
    assert covered / repetitions >= 0.93


def test_a_thousand_ks_stay_within_bounded_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    counts = drawn(even(np.random.default_rng(3), 40), 64, np.random.default_rng(4))
    whole = curve(counts, range(1, 65), Resampling(resamples=200))
    for place in ("resampling", "interval"):
        monkeypatch.setattr(f"sage_cli.metrics.intervals.{place}.BLOCK", 1000)
    parts = curve(counts, range(1, 65), Resampling(resamples=200))
    np.testing.assert_allclose(parts.low_K, whole.low_K, rtol=1e-12)
    np.testing.assert_allclose(parts.high_K, whole.high_K, rtol=1e-12)


def counts(c_P: list[int] | np.ndarray, n: int) -> Counts:
    return Counts(tuple(f"p{i}" for i in range(len(c_P))), np.full(len(c_P), n), np.asarray(c_P))


@pytest.mark.parametrize(("n", "k", "p"), [(6, 1, 0.3), (6, 2, 0.3), (6, 3, 0.05), (9, 4, 0.6)])
def test_sampling_variance_is_unbiased(n: int, k: int, p: float) -> None:
    """Over all c, weighted by their binomial chances, it averages to the estimator's variance."""
    weight_C = [comb(n, c) * p**c * (1 - p) ** (n - c) for c in range(n + 1)]
    pass_C = pass_at_k(n, np.arange(n + 1), k)
    truth = np.dot(weight_C, pass_C**2) - np.dot(weight_C, pass_C) ** 2
    estimate_C = [sampling_variance(counts([c], n), (k,))[0] for c in range(n + 1)]
    assert np.dot(weight_C, estimate_C) == pytest.approx(truth, rel=1e-12)


def test_sampling_variance_by_hand_and_where_it_is_unknown() -> None:
    # n = 2, c = 1, k = 1: (1/2)^2 - C(1,2)/C(2,2) = 1/4, and two problems halve the mean's.
    np.testing.assert_allclose(sampling_variance(counts([1, 1], 2), (1,)), [1 / 8], rtol=1e-15)
    assert np.isnan(sampling_variance(counts([1, 1], 2), (1, 2))).tolist() == [False, True]


def test_seeds_by_hand() -> None:
    # Two runs with two evaluation seeds each; pass@1 means 0, 1/2 and 1/2, 1: the variance
    # within runs is 1/8; between the run means 1/4 and 3/4 it is 1/8, less 1/8 / 2 = 1/16.
    runs = [[counts([0, 0], 4), counts([2, 2], 4)], [counts([2, 2], 4), counts([4, 4], 4)]]
    found = variance_components(runs, (1,))
    assert found.evaluation_seeds_K == pytest.approx([np.sqrt(1 / 8)], abs=1e-15)
    assert found.training_seeds_K == pytest.approx([np.sqrt(1 / 16)], abs=1e-15)
    assert found.problems_K == pytest.approx([0], abs=1e-15)


def test_undefined_parts_are_nan() -> None:
    found = variance_components([[counts([1, 2], 4)]], (1, 4))
    assert np.isnan(found.evaluation_seeds_K).all()
    assert np.isnan(found.training_seeds_K).all()
    assert np.isnan(found.sampling_K).tolist() == [False, True]
    # pass@1 = 1/4, 1/2: variance 1/32 over two problems
    assert found.problems_K[0] == pytest.approx(np.sqrt(1 / 64), abs=1e-15)


def test_both_ways_to_see_sampling_agree_and_training_stands_apart() -> None:
    generator = np.random.default_rng(6)
    p_P = generator.beta(0.7, 2, 60)
    runs = []
    for shift in generator.normal(0, 0.04, 60):
        seen_P = np.clip(p_P + shift, 0, 1)
        runs.append([counts(generator.binomial(16, seen_P), 16) for _ in range(4)])
    found = variance_components(runs, (1, 4))
    np.testing.assert_allclose(found.evaluation_seeds_K, found.sampling_K, rtol=0.1)
    means_T = [np.clip(p_P + s, 0, 1).mean() for s in np.random.default_rng(9).normal(0, 0.04, 999)]
    assert found.training_seeds_K[0] == pytest.approx(np.std(means_T), rel=0.25)
    alone = variance_components([[run[0]] for run in runs], (1,))
    assert alone.training_seeds_K[0] == pytest.approx(found.training_seeds_K[0], rel=0.1)
