"""Intervals of means by resampling: Gaffke's bounds and bootstrap-t."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from sage_cli.metrics.counts import FloatArray
from sage_cli.metrics.intervals.interval import (
    BLOCK,
    Interval,
    Resampling,
    in_columns,
    ranked,
    tail_rank,
)

ROUNDING = 1e-12
"""A variance that is this share of the squares is rounding."""


def drawn_times(problems: int, draws: int, how: Resampling) -> Iterator[tuple[slice, FloatArray]]:
    """Count how often each of P problems is drawn in `draws` draws with replacement.

    Yields rows of the resamples with an array (rows, P), blocks that fit in memory.
    """
    generator = np.random.default_rng(how.seed)
    block = max(1, BLOCK // problems)
    for start in range(0, how.resamples, block):
        rows = min(block, how.resamples - start)
        drawn = generator.integers(0, problems, size=(rows, draws))
        drawn += np.arange(rows)[:, None] * problems
        times = np.bincount(drawn.ravel(), minlength=rows * problems).reshape(rows, problems)
        yield slice(start, start + rows), times.astype(float)


def resampled_means(values_PK: FloatArray, how: Resampling) -> FloatArray:
    """Means over resampled problems, shape (R, K); all K columns share their resamples.

    P - 1 of P problems are drawn with replacement, not P: the variance of the means is then
    s^2 / P with the unbiased s^2, while P draws give (P - 1) / P of it (McCarthy 1969;
    Hesterberg 2015, section 3.2).
    """
    P, K = values_PK.shape
    means_RK = np.empty((how.resamples, K))
    for rows, times in drawn_times(P, P - 1, how):
        means_RK[rows] = times @ values_PK / (P - 1)
    return means_RK


def studentised(values_PK: FloatArray, how: Resampling) -> Interval:
    """Symmetric bootstrap-t intervals of the K means (Hall 1988; Davison and Hinkley 1997, 5.2).

    Each resample of the P problems has its own standard error; the interval reaches as many
    standard errors to both sides as the resampled means are away from the mean. Where few
    problems tell the mean from 0, many resamples have no variance: the interval is then the whole
    line, because the sample can't carry one.
    """

    def of(columns: slice) -> Interval:
        return _studentised(values_PK[:, columns], how)

    return in_columns(of, values_PK.shape[1], BLOCK // how.resamples)


def _studentised(values_PK: FloatArray, how: Resampling) -> Interval:
    P, K = values_PK.shape
    mean_K = values_PK.mean(axis=0)
    centred_PK = values_PK - mean_K
    squares_PK = centred_PK**2
    error_K = np.sqrt(squares_PK.sum(axis=0) / (P - 1) / P)
    distance_RK = np.empty((how.resamples, K))
    for rows, times in drawn_times(P, P, how):
        shift = times @ centred_PK / P
        square = times @ squares_PK / P
        variance = square - shift**2
        known = variance > ROUNDING * square
        error = np.sqrt(np.where(known, variance, 1) / (P - 1))
        # a resample without variance is infinitely many standard errors away
        distance_RK[rows] = np.where(known, np.abs(shift) / error, np.inf)
    reach_K = ranked(distance_RK, -tail_rank(1 - how.confidence, how.resamples))
    varied_K = error_K > 0
    observed_K = np.divide(np.abs(mean_K), error_K, out=np.zeros(K), where=varied_K)
    p_K = ((distance_RK >= observed_K).sum(axis=0) + 1) / (how.resamples + 1)
    half_K = np.where(varied_K, reach_K * np.where(varied_K, error_K, 1), np.inf)
    return Interval(mean_K - half_K, mean_K + half_K, np.where(varied_K, p_K, 1.0))


Bounds = tuple[float, float]


def gaffke(values_PK: FloatArray, bounds: Bounds, how: Resampling) -> Interval:
    """Equal-tailed intervals of the K means of P values within `bounds`; all K share the weights.

    NaN where there is one problem only.
    """
    P, K = values_PK.shape
    if P < 2:
        return Interval(*np.full((3, K), np.nan))

    def of(columns: slice) -> Interval:
        return _gaffke(values_PK[:, columns], bounds, how)

    return in_columns(of, K, BLOCK // how.resamples)


def _gaffke(values_PK: FloatArray, bounds: Bounds, how: Resampling) -> Interval:
    tail, (lowest, highest) = (1 - how.confidence) / 2, bounds
    rank = tail_rank(tail, how.resamples)
    means_RK, unseen_R1 = weighted_means(values_PK, how)
    below_RK, above_RK = means_RK + lowest * unseen_R1, means_RK + highest * unseen_R1
    far_K = np.minimum((below_RK <= 0).sum(axis=0), (above_RK >= 0).sum(axis=0))
    p_K = np.minimum(1.0, 2 * (far_K + 1) / (how.resamples + 1))
    simulated = ranked(below_RK, rank), ranked(above_RK, -rank), p_K
    equal_K = (values_PK == values_PK[0]).all(axis=0)
    exact = _of_one_value(values_PK[0], bounds, tail, len(values_PK))
    return Interval(*np.where(equal_K, exact, simulated))


def weighted_means(values_PK: FloatArray, how: Resampling) -> tuple[FloatArray, FloatArray]:
    """Sums of values times weights, shape (R, K), and the weight left for the unseen, (R, 1)."""
    generator = np.random.default_rng(how.seed)
    (P, K), resamples = values_PK.shape, how.resamples
    means_RK, unseen_R1 = np.empty((resamples, K)), np.empty((resamples, 1))
    block = max(1, BLOCK // (P + 1))
    for start in range(0, resamples, block):
        rows = slice(start, min(start + block, resamples))
        weights = generator.standard_exponential((rows.stop - start, P + 1))
        weights /= weights.sum(axis=1, keepdims=True)
        means_RK[rows] = weights[:, :P] @ values_PK
        unseen_R1[rows] = weights[:, P:]
    return means_RK, unseen_R1


def _of_one_value(value_K: FloatArray, bounds: Bounds, tail: float, problems: int) -> FloatArray:
    """Ends and p where all values are equal, (3, K), in closed form: their weight is Beta(P, 1).

    A share s of the population that differs goes unseen with probability (1 - s)^P; where that
    is `tail`, s is the weight of the extreme value (at 95 % about 3.7 / P).
    """
    (lowest, highest), seen = bounds, tail ** (1 / problems)
    # the share of the values at which their mean with the extreme one is 0
    up_K = np.divide(-lowest, value_K - lowest, out=np.ones_like(value_K), where=value_K > 0)
    down_K = np.divide(highest, highest - value_K, out=np.ones_like(value_K), where=value_K < 0)
    p_K = np.minimum(1.0, 2 * np.minimum(up_K, down_K) ** problems)
    return np.stack([lowest + seen * (value_K - lowest), highest - seen * (highest - value_K), p_K])
