"""Resampling of problems: the one bootstrap that every interval over problems uses."""

from __future__ import annotations

import numpy as np

from sage_cli.metrics.counts import FloatArray

BLOCK = 4_000_000


def mean_interval(
    values_PK: FloatArray,
    bounds: tuple[float, float],
    *,
    confidence: float,
    resamples: int,
    seed: int,
) -> tuple[FloatArray, FloatArray]:
    """Percentile bootstrap of the mean over problems; NaN where there is one problem only.

    Where all problems share one value v, resampling sees no variance at all. There the bound is
    that of the rule of three: P problems show nothing but v with probability (1 - s)^P when a
    share s of the population differs, and the rest lies within `bounds`.
    """
    problems, K = values_PK.shape
    if problems < 2:
        return np.full(K, np.nan), np.full(K, np.nan)
    tail = (1 - confidence) / 2
    means_RK = resampled_means(values_PK, resamples=resamples, seed=seed)
    low_K, high_K = np.quantile(means_RK, [tail, 1 - tail], axis=0)
    first_K = values_PK[0]
    same_K = (values_PK == first_K).all(axis=0)
    unseen = 1 - tail ** (1 / problems)
    low_K = np.where(same_K, first_K - unseen * (first_K - bounds[0]), low_K)
    high_K = np.where(same_K, first_K + unseen * (bounds[1] - first_K), high_K)
    return low_K, high_K


def resampled_means(values_PK: FloatArray, *, resamples: int, seed: int) -> FloatArray:
    """Means over resampled problems, shape (R, K); all K columns share their resamples.

    P - 1 of P problems are drawn with replacement, not P: the variance of the means is then
    s^2 / P with the unbiased s^2, while P draws give (P - 1) / P of it and bands that are too
    narrow on 40 problems (McCarthy 1969; Hesterberg 2015, section 3.2).
    """
    generator = np.random.default_rng(seed)
    problems, K = values_PK.shape
    draws = problems - 1
    means_RK = np.empty((resamples, K))
    block = max(1, BLOCK // problems)
    for start in range(0, resamples, block):
        rows = min(block, resamples - start)
        drawn = generator.integers(0, problems, size=(rows, draws))
        drawn += np.arange(rows)[:, None] * problems
        times = np.bincount(drawn.ravel(), minlength=rows * problems).reshape(rows, problems)
        means_RK[start : start + rows] = times.astype(float) @ values_PK / draws
    return means_RK
