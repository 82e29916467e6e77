from __future__ import annotations

import numpy as np
import pytest

from sage_cli.errors import MetricError
from sage_cli.metrics import Counts, paired_difference
from sage_cli.metrics.comparison import sign_flip_p


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


def test_sign_flip_by_hand() -> None:
    # 3 equal gaps: of 8 sign patterns, 2 have |sum| >= 3. With one gap of 0 no pattern differs.
    gap_PK = np.array([[1.0, 0.0], [1.0, 0.0], [1.0, 0.0]])
    np.testing.assert_array_equal(sign_flip_p(gap_PK), [0.25, 1.0])
    # gaps 2, 1: sums 3, 1, -1, -3: 2 of 4 reach |3|; gaps 2, -1: all 4 reach |1|.
    np.testing.assert_array_equal(sign_flip_p(np.array([[2.0, 2.0], [1.0, -1.0]])), [0.5, 1.0])


def test_random_flips_agree_with_all_flips(monkeypatch: pytest.MonkeyPatch) -> None:
    gap_PK = np.random.default_rng(5).normal(0.25, 0.5, (12, 4))
    exact_K = sign_flip_p(gap_PK)
    monkeypatch.setattr("sage_cli.metrics.comparison.EXACT_UP_TO", 0)
    monkeypatch.setattr("sage_cli.metrics.resampling.BLOCK", 1000)
    np.testing.assert_allclose(sign_flip_p(gap_PK), exact_K, atol=0.02)


def test_without_a_difference_the_level_holds_and_with_one_it_is_found() -> None:
    generator = np.random.default_rng(2)
    p_P = generator.beta(0.6, 1.5, 40)
    rejected = covered = 0
    for repetition in range(300):
        a, b = counts(generator.binomial(64, p_P), 64), counts(generator.binomial(64, p_P), 64)
        found = paired_difference(a, b, (1,), resamples=400, seed=repetition)
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


def test_thousands_of_problems_stay_in_memory_and_time() -> None:
    c_P = np.random.default_rng(0).integers(0, 5, 3_000)
    found = paired_difference(counts(c_P), counts(np.minimum(c_P + 1, 4)), (1,), resamples=500)
    assert found.p_K[0] == pytest.approx(1e-4)  # 1 / (9,999 + 1): no random pattern came near
