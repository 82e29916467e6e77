"""Bootstrap-t: intervals of a mean in units of its standard error."""

from __future__ import annotations

import numpy as np

from sage_cli.metrics.counts import FloatArray
from sage_cli.metrics.interval import BLOCK, Interval, in_columns, ranked, tail_rank
from sage_cli.metrics.resampling import drawn_times

ROUNDING = 1e-12
"""A variance that is this share of the squares is rounding."""


def studentised(values_PK: FloatArray, *, confidence: float, resamples: int, seed: int) -> Interval:
    """Symmetric bootstrap-t intervals of the K means (Hall 1988; Davison and Hinkley 1997, 5.2).

    Each resample of the P problems has its own standard error; the interval reaches as many
    standard errors to both sides as the resampled means are away from the mean. Where few
    problems tell the mean from 0, many resamples have no variance: the interval is then the whole
    line, and says that the sample can't carry one.
    """
    return in_columns(
        lambda columns: _studentised(values_PK[:, columns], confidence, resamples, seed),
        values_PK.shape[1],
        BLOCK // resamples,
    )


def _studentised(values_PK: FloatArray, confidence: float, resamples: int, seed: int) -> Interval:
    problems, K = values_PK.shape
    mean_K = values_PK.mean(axis=0)
    centred_PK = values_PK - mean_K
    squares_PK = centred_PK**2
    error_K = np.sqrt(squares_PK.sum(axis=0) / (problems - 1) / problems)
    distance_RK = np.empty((resamples, K))
    for rows, times in drawn_times(problems, problems, resamples=resamples, seed=seed):
        shift = times @ centred_PK / problems
        square = times @ squares_PK / problems
        variance = square - shift**2
        known = variance > ROUNDING * square
        error = np.sqrt(np.where(known, variance, 1) / (problems - 1))
        distance_RK[rows] = np.where(known, np.abs(shift) / error, np.inf)
    rank = tail_rank(1 - confidence, resamples)
    reach_K = ranked(distance_RK, -rank)
    varied_K = error_K > 0
    observed_K = np.divide(np.abs(mean_K), error_K, out=np.zeros(K), where=varied_K)
    p_K = ((distance_RK >= observed_K).sum(axis=0) + 1) / (resamples + 1)
    half_K = np.where(varied_K, reach_K * np.where(varied_K, error_K, 1), np.inf)
    return Interval(mean_K - half_K, mean_K + half_K, np.where(varied_K, p_K, 1.0))
