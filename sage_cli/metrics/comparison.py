"""The difference of two models' pass@k on the same problems."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from sage_cli.metrics.bands import pass_matrix
from sage_cli.metrics.counts import Counts, FloatArray
from sage_cli.metrics.gaffke import gaffke
from sage_cli.metrics.interval import Interval, narrower
from sage_cli.metrics.studentised import studentised


@dataclass(frozen=True, eq=False)
class Difference:
    """Mean of A's pass@k less B's at each k, its interval, and the p-value of "no difference".

    0 lies outside of the interval exactly where p is at most 1 - confidence.
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

    Interval and p-value are about the mean difference over the population of problems.
    Raises MetricError unless both were measured on the same problems.
    """
    gap_PK = paired_gaps(a, b, ks)
    found = gap_interval(gap_PK, confidence=confidence, resamples=resamples, seed=seed)
    return Difference(
        tuple(map(int, ks)), gap_PK.mean(axis=0), found.low_K, found.high_K, found.p_K,
        confidence, len(gap_PK),
    )  # fmt: skip


def paired_gaps(
    a: Counts | Sequence[Counts], b: Counts | Sequence[Counts], ks: Sequence[int]
) -> FloatArray:
    """pass@k of A less that of B per problem, shape (P, K), in the order of A's problems."""
    first = a if isinstance(a, Counts) else a[0]
    b_seeds = [b] if isinstance(b, Counts) else list(b)
    return pass_matrix(a, ks) - pass_matrix([s.ordered(first.problem_ids) for s in b_seeds], ks)


def gap_interval(gap_PK: FloatArray, *, confidence: float, resamples: int, seed: int) -> Interval:
    """Intervals of the mean differences, as wide as the problems at hand ask for.

    Gaffke's bounds hold whatever the differences are, but have to reckon with unseen ones of -1
    and 1, which makes them twice as wide as needed where many problems differ by a little.
    Bootstrap-t is right there, and has no end where few problems differ. The narrower of the two
    is taken at either end. NaN for one problem.
    """
    bounded = gaffke(gap_PK, (-1, 1), confidence=confidence, resamples=resamples, seed=seed)
    if len(gap_PK) < 2:
        return bounded
    return narrower(
        bounded, studentised(gap_PK, confidence=confidence, resamples=resamples, seed=seed)
    )
