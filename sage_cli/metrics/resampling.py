"""Resampling of problems: how often each is drawn, for whatever is computed of the drawn ones."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from sage_cli.metrics.counts import FloatArray
from sage_cli.metrics.interval import BLOCK


def drawn_times(
    problems: int, draws: int, *, resamples: int, seed: int
) -> Iterator[tuple[slice, FloatArray]]:
    """How often each of P problems is drawn in `draws` draws with replacement.

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
    problems, K = values_PK.shape
    means_RK = np.empty((resamples, K))
    draws = problems - 1
    for rows, times in drawn_times(problems, draws, resamples=resamples, seed=seed):
        means_RK[rows] = times @ values_PK / draws
    return means_RK
