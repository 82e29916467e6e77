"""The difference of two models' pass@k, or of two methods' over their training seeds."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import astuple, dataclass

import numpy as np

from sage_cli.errors import MetricError
from sage_cli.metrics.comparisons.seed_noise import Pool, SideRuns, by_run, error_over
from sage_cli.metrics.counts import BoolArray, Evaluations, FloatArray, each_seed
from sage_cli.metrics.intervals.bands import pass_matrix
from sage_cli.metrics.intervals.distributions import two_sided_p, two_sided_reach
from sage_cli.metrics.intervals.interval import USUAL, Interval, Resampling, narrower, wider
from sage_cli.metrics.intervals.resampling import gaffke, studentised


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
    a: Evaluations, b: Evaluations, ks: Sequence[int], how: Resampling = USUAL
) -> Difference:
    """A less B, problem by problem; interval and p-value are about the population of problems.

    Raises MetricError unless both were measured on the same problems.
    """
    gap_PK = paired_gaps(a, b, ks)
    interval, safe = gap_intervals(gap_PK, how)
    return Difference(
        tuple(map(int, ks)),
        gap_PK.mean(axis=0),
        interval.low_K,
        interval.high_K,
        interval.p_K,
        how.confidence,
        problems=len(gap_PK),
        safe=safe,
    )


def paired_gaps(a: Evaluations, b: Evaluations, ks: Sequence[int]) -> FloatArray:
    """pass@k of A less that of B per problem, shape (P, K), in the order of A's problems."""
    ids = each_seed(a)[0].problem_ids
    return pass_matrix(a, ks) - pass_matrix([seed.ordered(ids) for seed in each_seed(b)], ks)


def gap_intervals(gap_PK: FloatArray, how: Resampling) -> tuple[Interval, Interval]:
    """The intervals of the mean differences that are reported, and the safe ones.

    The safe ones are Gaffke's bounds, which hold whatever the differences are. They allow for
    unseen differences of -1 and 1, so they are twice as wide as needed where many problems differ
    by a little. Bootstrap-t is right there, and has no end where few problems differ. The reported
    intervals are the part that both share. NaN for one problem.
    """
    safe = gaffke(gap_PK, (-1, 1), how)
    if len(gap_PK) < 2:
        return safe, safe
    students = studentised(gap_PK, how)
    return narrower(safe, students), safe


def gap_interval(gap_PK: FloatArray, how: Resampling) -> Interval:
    """The first of `gap_intervals`."""
    return gap_intervals(gap_PK, how)[0]


def method_difference(
    a_runs: SideRuns,
    b_runs: SideRuns,
    ks: Sequence[int],
    how: Resampling = USUAL,
    *,
    pool: Pool | None = None,
) -> Difference:
    """A less B over other problems and other training seeds of the sides with several runs.

    A side with one run is a fixed model: the difference is to this model, whatever trained it.
    Student's t with the error of `error_over`, within -1 and 1; `pool` are the methods over which
    the seeds' variance is pooled (by default the two sides), each on this one benchmark. Against a
    fixed model the interval contains that of the models at hand, which is wider where few problems
    differ. Where no variance is seen, the interval of the mean gaps over problems takes its place.

    Raises MetricError where neither side has two runs, and for fewer than two problems.
    """
    if max(len(a_runs), len(b_runs)) < 2:
        raise MetricError(
            "one run of either side is a comparison of two models, not of methods",
            "name more runs as A1,A2,A3 B1,B2,B3, or compare one run with one run",
        )
    ids = a_runs[0][0].problem_ids
    if len(ids) < 2:
        raise MetricError("one problem alone says nothing about other problems")
    a_IPK, b_IPK = by_run(a_runs, ids, ks), by_run(b_runs, ids, ks)
    gap_PK = a_IPK.mean(axis=0) - b_IPK.mean(axis=0)
    mean_K = gap_PK.mean(axis=0)
    error_K, freedom_K = error_over([(a_IPK, b_IPK)], pool)
    seen_K = error_K > 0
    reach_K = two_sided_reach(1 - how.confidence, freedom_K) * error_K
    p_K = two_sided_p(mean_K / np.where(seen_K, error_K, 1), freedom_K)
    low_K, high_K = np.clip([mean_K - reach_K, mean_K + reach_K], -1, 1)
    interval = Interval(low_K, high_K, p_K)
    fixed = min(len(a_runs), len(b_runs)) < 2
    if fixed or not seen_K.all():
        models = gap_interval(gap_PK, how)
        both = wider(interval, models) if fixed else interval
        interval = Interval(*np.where(seen_K, astuple(both), astuple(models)))
    return Difference(
        tuple(map(int, ks)),
        mean_K,
        interval.low_K,
        interval.high_K,
        interval.p_K,
        how.confidence,
        problems=len(ids),
        runs=(len(a_runs), len(b_runs)),
    )
