"""The bootstrap over problems: resampled means, and bootstrap-t intervals of a mean."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from sage_cli.metrics.counts import FloatArray
from sage_cli.metrics.intervals.interval import BLOCK, Interval, in_columns, ranked, tail_rank

ROUNDING = 1e-12
"""A variance that is this share of the squares is rounding."""


def drawn_times(
    problems: int, draws: int, *, resamples: int, seed: int
) -> Iterator[tuple[slice, FloatArray]]:
    """Count how often each of P problems is drawn in `draws` draws with replacement.

    Yields rows of the resamples with an array (rows, P), blocks that fit in memory.
    """
    generator = np.random.default_rng(seed)
    block = max(1, BLOCK // problems)
    for start in range(0, resamples, block):
        rows = min(block, resamples - start)
        drawn = generator.integers(0, problems, size=(rows, draws))
        drawn += np.arange(rows)[:, None] * problems
        times = np.bincount(drawn.ravel(), minlength=rows * problems).reshape(rows, problems)
        yield slice(start, start + rows), times.astype(float)


def resampled_means(values_PK: FloatArray, *, resamples: int, seed: int) -> FloatArray:
    """Means over resampled problems, shape (R, K); all K columns share their resamples.

    P - 1 of P problems are drawn with replacement, not P: the variance of the means is then
    s^2 / P with the unbiased s^2, while P draws give (P - 1) / P of it (McCarthy 1969;
    Hesterberg 2015, section 3.2).
    """
    P, K = values_PK.shape
    means_RK = np.empty((resamples, K))
    for rows, times in drawn_times(P, P - 1, resamples=resamples, seed=seed):
        means_RK[rows] = times @ values_PK / (P - 1)
    return means_RK


def studentised(values_PK: FloatArray, *, confidence: float, resamples: int, seed: int) -> Interval:
    """Symmetric bootstrap-t intervals of the K means (Hall 1988; Davison and Hinkley 1997, 5.2).

    Each resample of the P problems has its own standard error; the interval reaches as many
    standard errors to both sides as the resampled means are away from the mean. Where few
    problems tell the mean from 0, many resamples have no variance: the interval is then the whole
    line, because the sample can't carry one.
    """

    def of(columns: slice) -> Interval:
        return _studentised(values_PK[:, columns], confidence, resamples, seed)

    return in_columns(of, values_PK.shape[1], BLOCK // resamples)


def _studentised(values_PK: FloatArray, confidence: float, resamples: int, seed: int) -> Interval:
    P, K = values_PK.shape
    mean_K = values_PK.mean(axis=0)
    centred_PK = values_PK - mean_K
    squares_PK = centred_PK**2
    error_K = np.sqrt(squares_PK.sum(axis=0) / (P - 1) / P)
    distance_RK = np.empty((resamples, K))
    for rows, times in drawn_times(P, P, resamples=resamples, seed=seed):
        shift = times @ centred_PK / P
        square = times @ squares_PK / P
        variance = square - shift**2
        known = variance > ROUNDING * square
        error = np.sqrt(np.where(known, variance, 1) / (P - 1))
        # a resample without variance is infinitely many standard errors away
        distance_RK[rows] = np.where(known, np.abs(shift) / error, np.inf)
    reach_K = ranked(distance_RK, -tail_rank(1 - confidence, resamples))
    varied_K = error_K > 0
    observed_K = np.divide(np.abs(mean_K), error_K, out=np.zeros(K), where=varied_K)
    p_K = ((distance_RK >= observed_K).sum(axis=0) + 1) / (resamples + 1)
    half_K = np.where(varied_K, reach_K * np.where(varied_K, error_K, 1), np.inf)
    return Interval(mean_K - half_K, mean_K + half_K, np.where(varied_K, p_K, 1.0))
