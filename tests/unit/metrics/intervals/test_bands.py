from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from sage_cli.errors import MetricError
from sage_cli.metrics import Counts, curve, pass_at_k
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
