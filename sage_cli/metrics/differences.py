"""The difference of pass@k of two models, or of two methods over their training seeds."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import astuple, dataclass

import numpy as np

from sage_cli.errors import MetricError
from sage_cli.metrics.counts import Evaluations, each_seed
from sage_cli.metrics.error_sources import Arms, SideRuns, by_run, error_over
from sage_cli.metrics.estimators import BoolArray, FloatArray
from sage_cli.metrics.intervals import (
    USUAL,
    Interval,
    Resampling,
    clip_interval,
    gaffke,
    narrower,
    pass_matrix,
    studentised,
    wider,
)

ROUNDING = 1e-12
"""Differences of two means that are smaller are rounding."""


@dataclass(frozen=True, eq=False)
class Pairing:
    """Training seeds that both sides have, and how alike these make both sides, shape (K,).

    `left_out` names the runs without a partner, which the difference doesn't use. `correlation_K`
    is that of the runs' mean pass@k; NaN for two seeds, where it can only be -1 or 1.
    """

    seeds: tuple[int, ...]
    left_out: tuple[str, ...]
    correlation_K: FloatArray


@dataclass(frozen=True, eq=False)
class Difference:
    """Mean of A's pass@k minus B's at each k, its interval, and the p-value of "no difference".

    p is the smallest level whose interval excludes 0. `runs` are the numbers of training seeds of A
    and B: (1, 1) is about these two models, more is about the methods that trained them. `safe` is
    the interval that holds whatever the differences are (Gaffke's bounds alone); None where
    training seeds are random too. `pairing` is None where runs aren't paired by their seed,
    `clusters` where `resampling` draws problems one by one.
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
    pairing: Pairing | None = None
    clusters: int | None = None
    resampling: Resampling = USUAL

    @property
    def two_seeds(self) -> bool:
        """True where a side's seeds are random, and there are just two of them.

        One degree of freedom bears no p-value far below .05: it rests on the normal distribution of
        the seeds' effects, of which two say nothing.
        """
        return 2 in self.runs

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
    a: Evaluations, b: Evaluations, ks: Sequence[int], resampling: Resampling = USUAL
) -> Difference:
    """Return A − B, problem by problem; interval and p-value are about the population of problems.

    Raises MetricError unless both were measured on the same problems.
    """
    gap_PK = paired_gaps(a, b, ks)
    units_XK = resampling.drawn_units(gap_PK, each_seed(a)[0].problem_ids)
    interval, safe = gap_intervals(units_XK, resampling)
    return Difference(
        tuple(map(int, ks)),
        gap_PK.mean(axis=0),
        interval.low_K,
        interval.high_K,
        interval.p_K,
        resampling.confidence,
        problems=len(gap_PK),
        safe=safe,
        clusters=_clusters_of(units_XK, resampling),
        resampling=resampling,
    )


def _clusters_of(units_XK: FloatArray, resampling: Resampling) -> int | None:
    return None if resampling.clusters is None else units_XK.shape[-2]


def paired_gaps(a: Evaluations, b: Evaluations, ks: Sequence[int]) -> FloatArray:
    """pass@k of A minus that of B per problem, shape (P, K), in the order of the problems' ids."""
    ids = each_seed(a)[0].problem_ids
    return pass_matrix(a, ks) - pass_matrix([seed.ordered(ids) for seed in each_seed(b)], ks)


def gap_intervals(gap_PK: FloatArray, resampling: Resampling) -> tuple[Interval, Interval | None]:
    """The intervals of the mean differences that are reported, and the safe ones.

    The safe ones are Gaffke's bounds, which hold whatever the differences are. They allow for
    unseen differences of -1 and 1, so they are twice as wide as needed where many problems differ
    by a little. Bootstrap-t is right there, and has no end where few problems differ. The reported
    intervals are the part that both share. NaN for one problem. Clusters, whose values have no
    bounds, have bootstrap-t alone, within -1 and 1.
    """
    if resampling.clusters is not None:
        return clip_interval(studentised(gap_PK, resampling), (-1, 1)), None
    safe = gaffke(gap_PK, (-1, 1), resampling)
    if len(gap_PK) < 2:
        return safe, safe
    students = studentised(gap_PK, resampling)
    return narrower(safe, students), safe


def gap_interval(gap_PK: FloatArray, resampling: Resampling) -> Interval:
    """The first of `gap_intervals`."""
    return gap_intervals(gap_PK, resampling)[0]


def method_difference(
    a_runs: SideRuns,
    b_runs: SideRuns,
    ks: Sequence[int],
    resampling: Resampling = USUAL,
    *,
    paired: bool = False,
    arms: Arms | None = None,
) -> Difference:
    """A minus B over other problems and other training seeds of the sides with several runs.

    A side with one run is a fixed model: the difference is to this model, whatever trained it.
    With `paired`, run i of both sides has one training seed. The interval is Howe's, with the
    sources of `error_over`, within -1 and 1; `arms` are those over which a suite pools the seeds'
    variance. Where the runs of one side, or the gaps of pairs, are all that varies, the interval
    contains that of the models at hand, which is wider where few problems differ. Where no variance
    is seen, the interval of the mean gaps over problems takes its place.

    Raises MetricError where neither side has two runs, and for fewer than two problems.
    """
    if max(len(a_runs), len(b_runs)) < 2:
        raise MetricError(
            "one run of either side is a comparison of two models, not of methods",
            "give more runs per side, A1,A2,A3 B1,B2,B3, or compare one run with one run",
        )
    ids = a_runs[0][0].problem_ids
    if len(ids) < 2:
        raise MetricError("a single problem says nothing about other problems")
    a_IPK, b_IPK = (resampling.drawn_units(by_run(runs, ids, ks), ids) for runs in (a_runs, b_runs))
    gap_PK = a_IPK.mean(axis=0) - b_IPK.mean(axis=0)
    mean_K = gap_PK.mean(axis=0)
    sources = error_over([(a_IPK, b_IPK)], paired=paired, arms=arms)
    # an error of 0 occurs where all runs agree exactly, for example at k = n on few problems: an
    # interval of width 0 would be a lie
    reach_K, seen_K = sources.reach(1 - resampling.confidence), sources.error > 0
    low_K, high_K = np.clip([mean_K - reach_K, mean_K + reach_K], -1, 1)
    interval = Interval(low_K, high_K, sources.p(mean_K))
    # an interval over seeds alone would be too narrow where few problems differ
    one_side_varies = paired or min(len(a_runs), len(b_runs)) < 2
    if one_side_varies or not seen_K.all():
        models = gap_interval(gap_PK, resampling)
        both = wider(interval, models) if one_side_varies else interval
        interval = Interval(*np.where(seen_K, astuple(both), astuple(models)))
    return Difference(
        tuple(map(int, ks)),
        mean_K,
        interval.low_K,
        interval.high_K,
        interval.p_K,
        resampling.confidence,
        problems=len(ids),
        runs=(len(a_runs), len(b_runs)),
        clusters=_clusters_of(gap_PK, resampling),
        resampling=resampling,
    )
