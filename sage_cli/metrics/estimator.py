"""pass@k, unbiased: 1 - C(n-c, k) / C(n, k) (Chen et al. 2021, https://arxiv.org/abs/2107.03374)."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from sage_cli.errors import MetricError
from sage_cli.metrics.counts import FloatArray, IntArray, whole


def pass_at_k(n: ArrayLike, c: ArrayLike, k: ArrayLike) -> Any:
    """The chance that at least one of k samples, drawn without replacement from n, is right.

    `n` samples of which `c` are right: numbers or arrays that broadcast together, one entry per
    problem. `k`: a number or a 1-d array. The result has the shape of n and c, followed by that
    of k; numbers all around give a float. Raises MetricError unless 0 <= c <= n and
    1 <= k <= n for every problem.

    Relative error below 1e-12 for n up to 10,000: the sum of the chances that the i-th draw is
    the first right one has no cancellation, unlike 1 - product, and no factorials to overflow.
    """
    n_, c_, k_ = whole(n, "n"), whole(c, "c"), whole(k, "k")
    try:
        n_, c_ = np.broadcast_arrays(n_, c_)
    except ValueError:
        raise MetricError(f"n has shape {n_.shape} and c has shape {c_.shape}") from None
    _check(n_, c_, k_)
    shape = n_.shape + k_.shape
    if 0 in shape:
        return np.zeros(shape)
    # Problems that share (n, c) share their curve, and few pairs differ: with n = 256, at most 257.
    stride = int(n_.max()) + 1
    pairs_U, place_P = np.unique(n_.ravel() * stride + c_.ravel(), return_inverse=True)
    ks_K, order_K = np.unique(k_.ravel(), return_inverse=True)
    pass_KU = _curves(pairs_U // stride, pairs_U % stride, ks_K)
    result = pass_KU.T[np.ix_(place_P.ravel(), order_K.ravel())].reshape(shape)
    return float(result) if shape == () else result


def _curves(n_U: IntArray, c_U: IntArray, ks_K: IntArray) -> FloatArray:
    """pass@k for ascending ks; memory stays at a few rows however large the last k is."""
    pass_KU = np.empty((len(ks_K), len(n_U)))
    right_U, left_U, none_yet_U = c_U.astype(float), n_U.astype(float), np.ones(len(n_U))
    pass_U = np.zeros(len(n_U))
    row = 0
    for k in range(1, int(ks_K[-1]) + 1):
        pass_U += none_yet_U * right_U / left_U
        none_yet_U *= np.maximum(left_U - right_U, 0) / left_U
        left_U -= 1
        if k == ks_K[row]:
            pass_KU[row] = np.where(k > n_U - c_U, 1.0, np.minimum(pass_U, 1.0))
            row += 1
    return pass_KU


def _check(n_: IntArray, c_: IntArray, k_: IntArray) -> None:
    if k_.ndim > 1:
        raise MetricError(f"k must be a number or a 1-d array, not of shape {k_.shape}")
    if not n_.size or not k_.size:
        return
    if (bad := (n_ < 0) | (c_ < 0) | (c_ > n_)).any():
        raise MetricError(f"c must lie in 0..n; got n = {n_[bad][0]}, c = {c_[bad][0]}")
    if k_.min() < 1:
        raise MetricError(f"k must be at least 1, not {k_.min()}")
    if k_.max() > n_.min():
        raise MetricError(
            f"pass@{k_.max()} is undefined for a problem with {n_.min()} samples (k > n)",
            f"ask for k up to {n_.min()}, or draw at least {k_.max()} samples per problem",
        )
