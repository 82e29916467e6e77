"""The difference of two models' pass@k on the same problems."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from sage_cli.metrics.bands import pass_matrix
from sage_cli.metrics.counts import Counts, FloatArray
from sage_cli.metrics.resampling import BLOCK, mean_interval

EXACT_UP_TO = 13
"""Problems up to which all 2^P sign patterns are tried."""
FLIPS = 9_999


@dataclass(frozen=True, eq=False)
class Difference:
    """Mean of A's pass@k less B's at each k, its interval, and the p-value of "no difference".

    `runs` are the training seeds of A and of B: (1, 1) says something about these two models,
    more about the methods that trained them.
    """

    ks: tuple[int, ...]
    mean_K: FloatArray
    low_K: FloatArray
    high_K: FloatArray
    p_K: FloatArray
    confidence: float
    problems: int
    runs: tuple[int, int] = (1, 1)


def paired_difference(
    a: Counts | Sequence[Counts],
    b: Counts | Sequence[Counts],
    ks: Sequence[int],
    *,
    confidence: float = 0.95,
    resamples: int = 2000,
    seed: int = 0,
) -> Difference:
    """A less B, problem by problem; several counts are evaluation seeds of one model.

    The interval resamples problems; the p-value flips the signs of the problems' differences.
    Raises MetricError unless both were measured on the same problems.
    """
    gap_PK = paired_gaps(a, b, ks)
    low_K, high_K = mean_interval(
        gap_PK, (-1, 1), confidence=confidence, resamples=resamples, seed=seed
    )
    p_K = sign_flip_p(gap_PK, seed=seed)
    return Difference(
        tuple(map(int, ks)), gap_PK.mean(axis=0), low_K, high_K, p_K, confidence, len(gap_PK)
    )


def paired_gaps(
    a: Counts | Sequence[Counts], b: Counts | Sequence[Counts], ks: Sequence[int]
) -> FloatArray:
    """pass@k of A less that of B per problem, shape (P, K), in the order of A's problems."""
    first = a if isinstance(a, Counts) else a[0]
    b_seeds = [b] if isinstance(b, Counts) else list(b)
    return pass_matrix(a, ks) - pass_matrix([s.ordered(first.problem_ids) for s in b_seeds], ks)


def sign_flip_p(gap_PK: FloatArray, *, seed: int = 0) -> FloatArray:
    """Two-sided permutation p-values for "A and B are exchangeable on every problem", shape (K,).

    Exact up to 13 problems; beyond, 9,999 random sign patterns and the observed one, so that
    p is never 0 and the test never rejects more often than its level.
    """
    problems, K = gap_PK.shape
    observed_K = np.abs(gap_PK.sum(axis=0)) - 1e-9  # equal sums in another order count as equal
    if problems <= EXACT_UP_TO:
        patterns = np.arange(1 << problems)[:, None] >> np.arange(problems) & 1
        sums_FK = (1.0 - 2.0 * patterns) @ gap_PK
        return np.asarray((np.abs(sums_FK) >= observed_K).mean(axis=0))
    generator = np.random.default_rng(seed)
    as_large_K = np.ones(K)
    block = max(1, BLOCK // problems)
    for start in range(0, FLIPS, block):
        rows = min(block, FLIPS - start)
        signs_FP = 1.0 - 2.0 * generator.integers(0, 2, size=(rows, problems))
        as_large_K += (np.abs(signs_FP @ gap_PK) >= observed_K).sum(axis=0)
    return as_large_K / (FLIPS + 1)
