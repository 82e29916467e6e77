"""Resampling of problems: the one bootstrap that every interval over problems uses."""

from __future__ import annotations

import numpy as np

from sage_cli.metrics.counts import FloatArray

BLOCK = 4_000_000


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
