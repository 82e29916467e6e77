"""The difference of two models' pass@k on the same problems."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from sage_cli.metrics.counts import BoolArray, Evaluations, FloatArray, each_seed
from sage_cli.metrics.intervals.bands import pass_matrix
from sage_cli.metrics.intervals.bootstrap import studentised
from sage_cli.metrics.intervals.gaffke import gaffke
from sage_cli.metrics.intervals.interval import Interval, narrower


@dataclass(frozen=True, eq=False)
class Difference:
    """Mean of A's pass@k less B's at each k, its interval, and the p-value of "no difference".

    0 lies outside of the interval exactly where p is at most 1 - confidence. `runs` are the
    numbers of training seeds of A and B: (1, 1) is about these two models, more is about the
    methods that trained them. `safe` is the interval that holds whatever the differences are
    (Gaffke's bounds alone); None where training seeds are random too.
    """

    ks: tuple[int, ...]
    mean_K: FloatArray
    low_K: FloatArray
    high_K: FloatArray
    p_K: FloatArray
    confidence: float
    problems: int
    runs: tuple[int, int] = (1, 1)
    safe: Interval | None = None

    @property
    def fragile(self) -> BoolArray:
        """True at each k where the test finds a difference and the safe interval doesn't.

        Problems that lose nearly everything, so rare that none was sampled, could then undo it.
        """
        if self.safe is None:
            return np.zeros(len(self.ks), dtype=bool)
        level = 1 - self.confidence
        fragile_K: BoolArray = (self.p_K <= level) & (self.safe.p_K > level)
        return fragile_K


def paired_difference(
    a: Evaluations,
    b: Evaluations,
    ks: Sequence[int],
    *,
    confidence: float = 0.95,
    resamples: int = 2000,
    seed: int = 0,
) -> Difference:
    """A less B, problem by problem; interval and p-value are about the population of problems.

    Raises MetricError unless both were measured on the same problems.
    """
    gap_PK = paired_gaps(a, b, ks)
    interval, safe = gap_intervals(gap_PK, confidence=confidence, resamples=resamples, seed=seed)
    return Difference(
        tuple(map(int, ks)),
        gap_PK.mean(axis=0),
        interval.low_K,
        interval.high_K,
        interval.p_K,
        confidence,
        problems=len(gap_PK),
        safe=safe,
    )


def paired_gaps(a: Evaluations, b: Evaluations, ks: Sequence[int]) -> FloatArray:
    """pass@k of A less that of B per problem, shape (P, K), in the order of A's problems."""
    ids = each_seed(a)[0].problem_ids
    return pass_matrix(a, ks) - pass_matrix([seed.ordered(ids) for seed in each_seed(b)], ks)


def gap_intervals(
    gap_PK: FloatArray, *, confidence: float, resamples: int, seed: int
) -> tuple[Interval, Interval]:
    """The intervals of the mean differences that are reported, and the safe ones.

    The safe ones are Gaffke's bounds, which hold whatever the differences are. They allow for
    unseen differences of -1 and 1, so they are twice as wide as needed where many problems differ
    by a little. Bootstrap-t is right there, and has no end where few problems differ. The reported
    intervals are the part that both share. NaN for one problem.
    """
    safe = gaffke(gap_PK, (-1, 1), confidence=confidence, resamples=resamples, seed=seed)
    if len(gap_PK) < 2:
        return safe, safe
    students = studentised(gap_PK, confidence=confidence, resamples=resamples, seed=seed)
    return narrower(safe, students), safe


def gap_interval(gap_PK: FloatArray, *, confidence: float, resamples: int, seed: int) -> Interval:
    """The first of `gap_intervals`."""
    return gap_intervals(gap_PK, confidence=confidence, resamples=resamples, seed=seed)[0]
