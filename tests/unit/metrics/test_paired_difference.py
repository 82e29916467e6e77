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
    # 2 x 2.0 x .1 / sqrt(60) = .052: not the width of an unseen difference of 1 with a share of .06
    students = 4 * gap_P.std(ddof=1) / 60**0.5
    assert found.high_K[0] - found.low_K[0] == pytest.approx(students, rel=0.1)


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
