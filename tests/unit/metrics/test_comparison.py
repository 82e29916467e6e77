""""""

from __future__ import annotations

import numpy as np
import pytest

from sage_cli.metrics import Counts, Side, compare_sides, curve_ks, find_crossing, paired_difference
from sage_cli.metrics.comparison import first_below_zero
from sage_cli.metrics.intervals import Resampling

INF = np.inf


def counts(c_P: list[int] | np.ndarray, n: int = 4) -> Counts:
    return Counts(tuple(f"p{i}" for i in range(len(c_P))), np.full(len(c_P), n), np.asarray(c_P))


def test_by_hand() -> None:
    # A solves one of two problems always: pass@k = 1/2. B has 1 of 4 on both: 1/4, 1/2, 1 at
    # k = 1, 2, 4. The gap 1/4, 0, -1/2 leaves 0 at k = 2 ...
    a, b = counts([4, 0]), counts([1, 1])
    found = find_crossing(a, b, (1, 2, 4))
    assert (found.leader, found.k) == ("a", pytest.approx(2, abs=1e-12))
    # ... and with k = 1 and 4 alone, a third of the way in log2 k: 2^(2/3).
    assert find_crossing(a, b, (1, 4)).k == pytest.approx(2 ** (2 / 3), abs=1e-12)
    assert find_crossing(b, a, (1, 4)).leader == "b"
    assert find_crossing(b, a, (1, 4)).k == pytest.approx(2 ** (2 / 3), abs=1e-12)


def test_first_below_zero() -> None:
    gap_RK = np.array([[1, 1, -1], [-1, 1, 1], [1, 0, 0], [1, -1, 1], [0, 0, -1], [0, 1, -3]])
    expected = [2**1.5, -INF, INF, 2**0.5, 2, 2**1.25]
    np.testing.assert_allclose(first_below_zero(gap_RK.astype(float), (1, 2, 4)), expected)


def test_curves_that_do_not_cross_have_no_point_but_an_interval() -> None:
    found = find_crossing(counts([3] * 20), counts([1] * 20), (1, 2))
    assert (found.leader, found.share) == ("a", 0)
    assert np.isnan(found.k)
    assert (found.low, found.high) == (INF, INF)


@pytest.mark.parametrize("ks", [(1, 2, 4), (1,)])
def test_equal_curves_and_single_ks_have_no_crossing(ks: tuple[int, ...]) -> None:
    b = counts([2, 2]) if len(ks) > 1 else counts([1, 2])
    found = find_crossing(counts([2, 2]), b, ks)
    assert found.leader == ""
    assert np.isnan([found.k, found.low, found.high, found.share]).all()


@pytest.mark.slow
def test_the_interval_covers_the_populations_crossing() -> None:
    """Trained: half of the problems good, the others lost; base: all of them seldom right."""
    generator = np.random.default_rng(8)

    def population(problems: int) -> tuple[np.ndarray, np.ndarray]:
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
def test_identical_models_cross_by_chance_and_it_is_not_called_a_crossing() -> None:
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


def test_a_lead_that_fades_is_no_crossing() -> None:
    """Half as likely again at k = 1, and the same at large k, whatever noise does there."""
    generator = np.random.default_rng(5)
    ks, told = curve_ks(64), 0
    for repetition in range(100):
        base_P = np.where(generator.random(60) < 0.5, 0.0, generator.beta(6, 14, 60))
        a = counts(generator.binomial(64, np.minimum(1, 1.5 * base_P)), 64)
        b = counts(generator.binomial(64, base_P), 64)
        told += find_crossing(a, b, ks, Resampling(resamples=300, seed=repetition)).established
    assert told <= 5


def test_a_true_crossing_is_established_with_both_ends() -> None:
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


def few_for_many(problems: int, n: int) -> tuple[Counts, Counts]:
    """Trained: half of the problems good, the others lost; base: all of them seldom right."""
    generator = np.random.default_rng(8)
    lost_P = generator.random(problems) < 0.5
    trained_P = np.where(lost_P, 0.0, generator.beta(20, 5, problems))
    base_P = generator.beta(4, 16, problems)
    return counts(generator.binomial(n, trained_P), n), counts(generator.binomial(n, base_P), n)


def test_which_ks_are_shown_changes_neither_curves_nor_the_crossing() -> None:
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
