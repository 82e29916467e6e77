from __future__ import annotations

import numpy as np
import pytest

from sage_cli.errors import MetricError
from sage_cli.metrics import Counts, paired_difference
from sage_cli.metrics.intervals import Resampling, gaffke


def counts(c_P: list[int] | np.ndarray, n: int = 4) -> Counts:
    return Counts(tuple(f"p{i}" for i in range(len(c_P))), np.full(len(c_P), n), np.asarray(c_P))


def test_the_difference_is_paired_by_problem() -> None:
    # pass@1: A 1/4, 4/4; B 0/4, 2/4 -> mean gap (1/4 + 1/2) / 2 = 3/8.
    # pass@2: A 1/2, 1; B 0, 5/6 -> mean gap (1/2 + 1/6) / 2 = 1/3.
    a, b = counts([1, 4]), Counts(("p1", "p0"), [4, 4], [2, 0])
    found = paired_difference(a, b, (1, 2))
    np.testing.assert_allclose(found.mean_K, [3 / 8, 1 / 3], rtol=1e-14)
    assert (found.problems, found.runs) == (2, (1, 1))
    back = paired_difference(b, a, (1, 2))
    np.testing.assert_allclose(back.mean_K, -found.mean_K, rtol=1e-14)
    np.testing.assert_array_equal(back.p_K, found.p_K)


def test_other_problems_are_refused() -> None:
    with pytest.raises(MetricError, match="first 'p2'"):
        paired_difference(counts([1, 2, 3]), counts([1, 2]), (1,))


def test_evaluation_seeds_are_averaged() -> None:
    found = paired_difference([counts([0, 0]), counts([4, 0])], counts([1, 0]), (1,))
    assert found.mean_K == pytest.approx([(1 / 2 - 1 / 4) / 2], abs=1e-15)


@pytest.mark.slow
def test_without_a_difference_the_level_holds_and_with_one_it_is_found() -> None:
    generator = np.random.default_rng(2)
    p_P = generator.beta(0.6, 1.5, 40)
    rejected = covered = 0
    for repetition in range(300):
        a, b = counts(generator.binomial(64, p_P), 64), counts(generator.binomial(64, p_P), 64)
        found = paired_difference(a, b, (1,), Resampling(resamples=400, seed=repetition))
        rejected += bool(found.p_K[0] <= 0.05)
        covered += bool(found.low_K[0] <= 0 <= found.high_K[0])
    assert rejected / 300 <= 0.08
    assert 0.92 <= covered / 300 <= 0.98
    better = counts(generator.binomial(64, np.minimum(1, p_P + 0.1)), 64)
    assert paired_difference(better, a, (1,)).p_K[0] < 0.001


def test_equal_runs_differ_by_zero_with_an_honest_interval() -> None:
    # 60 problems without a difference: a share of more than 1 - 0.025^(1/60) would have shown.
    same = counts([2] * 60)
    found = paired_difference(same, same, (1, 4))
    np.testing.assert_array_equal(found.mean_K, [0, 0])
    np.testing.assert_array_equal(found.p_K, [1, 1])
    np.testing.assert_allclose(found.high_K, 1 - 0.025 ** (1 / 60), rtol=1e-12)
    np.testing.assert_allclose(found.low_K, -found.high_K, rtol=1e-12)


def test_the_safe_interval_is_gaffkes_alone_and_never_narrower() -> None:
    gap_P = np.random.default_rng(0).normal(0.05, 0.1, 60)
    base_P = np.full(60, 500)
    better = counts(base_P + np.round(1000 * gap_P).astype(int), 1000)
    found = paired_difference(better, counts(base_P, 1000), (1,))
    gaps = (better.c_P - 500)[:, None] / 1000
    alone = gaffke(gaps, (-1, 1), Resampling())
    assert found.safe is not None
    assert found.safe.low_K == pytest.approx(alone.low_K, abs=1e-12)
    assert found.safe.high_K == pytest.approx(alone.high_K, abs=1e-12)
    assert found.safe.low_K[0] < found.low_K[0] <= found.high_K[0] < found.safe.high_K[0]


def test_a_gain_that_unseen_losses_could_undo_is_fragile() -> None:
    def fragile(more: int, problems: int = 60) -> bool:
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


def test_thousands_of_problems_stay_in_memory_and_time() -> None:
    c_P = np.random.default_rng(0).integers(0, 5, 3_000)
    found = paired_difference(
        counts(c_P), counts(np.minimum(c_P + 1, 4)), (1,), Resampling(resamples=500)
    )
    assert found.p_K[0] == pytest.approx(1 / 501)  # of 500 resamples none came near


@pytest.mark.parametrize("change", ["none", "raised"])
@pytest.mark.parametrize(("a", "b", "k"), [(0.05, 1.0, 1), (1.0, 2.0, 64), (2.0, 0.3, 64)])
@pytest.mark.slow
def test_covers_where_few_problems_differ(a: float, b: float, k: int, change: str) -> None:
    """Values near 0 or 1: most problems show no difference, the rare others carry it."""
    generator = np.random.default_rng(5)

    def policies(problems: int) -> tuple[np.ndarray, np.ndarray]:
        base_P = generator.beta(a, b, problems)
        odds_P = base_P / (1 - base_P + 1e-12) * (2 if change == "raised" else 1)
        return odds_P / (1 + odds_P), base_P

    better_M, base_M = policies(400_000)
    truth = ((1 - base_M) ** k - (1 - better_M) ** k).mean()
    covered, repetitions = 0, 200
    for repetition in range(repetitions):
        one, other = (counts(generator.binomial(256, p_P), 256) for p_P in policies(30))
        found = paired_difference(one, other, (k,), Resampling(resamples=400, seed=repetition))
        covered += bool(found.low_K[0] <= truth <= found.high_K[0])
    assert covered / repetitions >= 0.87


def test_many_small_differences_are_not_given_the_width_of_unseen_large_ones() -> None:
    # 60 differences with a deviation of .1: 2 x 2.0 x .1 / sqrt(60) = .052. An unseen difference
    # of 1 may have a share of .06 in the population: bounds that reckon with it are twice as wide.
    gap_P = np.random.default_rng(0).normal(0.05, 0.1, 60)
    base_P = np.full(60, 500)
    better = counts(base_P + np.round(1000 * gap_P).astype(int), 1000)
    found = paired_difference(better, counts(base_P, 1000), (1,))
    students = 4 * gap_P.std(ddof=1) / 60**0.5
    assert found.high_K[0] - found.low_K[0] == pytest.approx(students, rel=0.1)
