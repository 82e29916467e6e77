"""The Beta distribution of success probabilities that fits counts best."""

from __future__ import annotations

import numpy as np

from sage_cli.metrics.counts import Counts, FloatArray, IntArray


def fit_beta(counts: Counts, near: tuple[float, float] | None = None) -> tuple[float, float]:
    """a, b of the Beta distribution of success probabilities that makes counts likeliest.

    The beta-binomial likelihood is searched on a grid of mean and a + b that is refined three
    times: to within 1 % of both. With `near` the first two grids, the widest, are left out.
    """
    pairs, seen = np.unique(np.stack([counts.n_P, counts.c_P]), axis=1, return_counts=True)
    times = seen.astype(np.int64)
    middle, reach, rounds, points = np.array([0.0, 1.0]), np.array([8.0, 6.0]), 4, 17
    if near is not None:
        a, b = near
        middle, reach, rounds, points = np.log([a / b, a + b]), np.array([1.2, 1.2]), 2, 9
    for _ in range(rounds):
        steps = np.linspace(-1, 1, points)
        grid = [middle + reach * np.array([x, y]) for x in steps for y in steps]
        middle = max(grid, key=lambda point: _log_likelihood(*_shape(point), pairs, times))
        reach = reach / 6 if near is None else reach / 4
    return _shape(middle)


def _shape(point: FloatArray) -> tuple[float, float]:
    """a, b from the log-odds of their mean and the logarithm of their sum."""
    mean, total = 1 / (1 + np.exp(-point[0])), np.exp(point[1])
    return float(total * mean), float(total * (1 - mean))


def _log_likelihood(a: float, b: float, pairs: IntArray, times: IntArray) -> float:
    """Of (n, c) pairs, each seen so many `times`, up to what doesn't depend on a and b."""
    n_U, c_U = pairs
    up_to = np.arange(n_U.max())

    def rising(start: float) -> FloatArray:
        return np.concatenate([[0.0], np.cumsum(np.log(start + up_to))])

    each_U = rising(a)[c_U] + rising(b)[n_U - c_U] - rising(a + b)[n_U]
    return float(each_U @ times)
