"""Methods compared over their training seeds: with each other, or with one fixed model."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import astuple

import numpy as np

from sage_cli.errors import MetricError
from sage_cli.metrics.comparisons.paired_difference import Difference, gap_interval
from sage_cli.metrics.comparisons.seed_noise import Pool, SideRuns, by_run, error_over
from sage_cli.metrics.intervals.distributions import two_sided_p, two_sided_reach
from sage_cli.metrics.intervals.interval import Interval, wider


def method_difference(
    a_runs: SideRuns,
    b_runs: SideRuns,
    ks: Sequence[int],
    *,
    pool: Pool | None = None,
    confidence: float = 0.95,
    resamples: int = 2000,
    seed: int = 0,
) -> Difference:
    """A less B over other problems and other training seeds of the sides with several runs.

    A side with one run is a fixed model: the difference is to this model, whatever trained it.
    Student's t with the error of `error_over`, within -1 and 1; `pool` are the methods over which
    the seeds' variance is pooled (by default the two sides), each on this one benchmark. Against a
    fixed model the interval contains that of the models at hand, which is wider where few problems
    differ. Where no variance is seen, the interval of the mean gaps over problems takes its place
    (`resamples` and `seed` are for that). Raises MetricError where neither side has two runs, and
    for fewer than two problems.
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
    reach_K = two_sided_reach(1 - confidence, freedom_K) * error_K
    p_K = two_sided_p(mean_K / np.where(seen_K, error_K, 1), freedom_K)
    low_K, high_K = np.clip([mean_K - reach_K, mean_K + reach_K], -1, 1)
    interval = Interval(low_K, high_K, p_K)
    fixed = min(len(a_runs), len(b_runs)) < 2
    if fixed or not seen_K.all():
        models = gap_interval(gap_PK, confidence=confidence, resamples=resamples, seed=seed)
        both = wider(interval, models) if fixed else interval
        interval = Interval(*np.where(seen_K, astuple(both), astuple(models)))
    return Difference(
        tuple(map(int, ks)),
        mean_K,
        interval.low_K,
        interval.high_K,
        interval.p_K,
        confidence,
        problems=len(ids),
        runs=(len(a_runs), len(b_runs)),
    )
