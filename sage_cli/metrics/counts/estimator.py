"""pass@k, pass^k, G-Pass@k and Cover@tau from counts, without bias.

pass@k is 1 - C(n-c, k) / C(n, k) (Chen et al. 2021, https://arxiv.org/abs/2107.03374).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from sage_cli.errors import MetricError
from sage_cli.metrics.counts import FloatArray, IntArray, whole


def pass_at_k(n: ArrayLike, c: ArrayLike, k: ArrayLike) -> Any:
    """The probability that at least one of k samples, without replacement from n, is right.

    `n` samples of which `c` are right: numbers or arrays that broadcast together, one entry per
    problem. `k`: a number or a 1-d array. The result has the shape of n and c, followed by that
    of k; numbers all around give a float. Raises MetricError unless 0 <= c <= n and
    1 <= k <= n for every problem.

    Relative error below 1e-12 for n up to 10,000: the probabilities that the i-th sample is the
    first right one are added up, without the cancellation of 1 - product or factorials to overflow.
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
    # problems that share (n, c) share their curve, and few pairs differ: with n = 256, at most 257
    stride = int(n_.max()) + 1
    pairs_U, place_P = np.unique(n_.ravel() * stride + c_.ravel(), return_inverse=True)
    ks_K, order_K = np.unique(k_.ravel(), return_inverse=True)
    pass_KU = _curves(pairs_U // stride, pairs_U % stride, ks_K)
    pass_UK = np.ascontiguousarray(pass_KU[order_K.ravel()].T)
    result = pass_UK.take(place_P.ravel(), axis=0).reshape(shape)
    return float(result) if shape == () else result


def _curves(n_U: IntArray, c_U: IntArray, ks_K: IntArray) -> FloatArray:
    """pass@k for ascending ks: one more sample adds (1 - pass) times its chance to be right.

    Sample k is right with chance c / (n - k + 1) when none was before. When only right samples are
    left that chance is 1 and pass is 0 or at least 1/2, so that 1 - pass has no rounding error,
    pass becomes exactly 1 and stays there. Memory: a few rows, however large k is.
    """
    pass_KU = np.empty((len(ks_K), len(n_U)))
    right_U, left_U = c_U.astype(float), n_U.astype(float)
    pass_U, gain_U, chance_U = np.zeros(len(n_U)), np.empty(len(n_U)), np.empty(len(n_U))
    row = 0
    for k in range(1, int(ks_K[-1]) + 1):
        np.divide(right_U, left_U, out=chance_U)
        np.subtract(1.0, pass_U, out=gain_U)
        gain_U *= chance_U
        pass_U += gain_U
        left_U -= 1
        if k == ks_K[row]:
            pass_KU[row] = pass_U
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
            f"ask for k up to {n_.min()}, or sample at least {k_.max()} per problem",
        )


def all_right_at_k(n_P: IntArray, c_P: IntArray, ks: Sequence[int]) -> FloatArray:
    """Return pass^k, shape (P, K): the chance that all of k samples are right, C(c, k) / C(n, k).

    Samples are drawn without replacement, so that it is unbiased (Yao et al. 2024,
    https://arxiv.org/abs/2406.12045). Raises MetricError where k exceeds n.
    """
    return g_pass_at_k(n_P, c_P, ks, 1.0)


def g_pass_at_k(n_P: IntArray, c_P: IntArray, ks: Sequence[int], tau: float) -> FloatArray:
    """Return G-Pass@k, shape (P, K): the chance that at least tau k of k samples are right.

    Hypergeometric, so without bias (Liu et al. 2024, https://arxiv.org/abs/2412.13147). One right
    sample is the least that is asked for. Raises MetricError where k exceeds n or tau isn't above
    0 and at most 1.
    """
    from scipy.stats import hypergeom

    _check_share(tau)
    n_P, c_P = np.asarray(n_P), np.asarray(c_P)
    if bad := [k for k in ks if not 1 <= k <= int(n_P.min(initial=np.iinfo(int).max))]:
        raise MetricError(
            f"G-Pass@{bad[0]} is undefined for a problem with {n_P.min()} samples",
            f"ask for k from 1 to {n_P.min()}, or sample more per problem",
        )
    ks_K = np.asarray(ks, int)
    wanted_K = _least(tau, ks_K)
    found_PK: FloatArray = hypergeom.sf(
        wanted_K - 1, n_P[:, None], c_P[:, None], ks_K
    )  # the chance of more than wanted - 1
    return np.clip(found_PK, 0.0, 1.0)


def covered_at(n_P: IntArray, c_P: IntArray, taus: Sequence[float]) -> FloatArray:
    """Return Cover@tau by problem, 1 or 0, shape (P, tau): whether the share c/n is at least tau.

    It is the plug-in: a problem whose chance lies near tau falls on either side by the noise of n
    samples. Raises MetricError where a tau isn't above 0 and at most 1.
    """
    for tau in taus:
        _check_share(tau)
    n_P, c_P = np.asarray(n_P)[:, None], np.asarray(c_P)[:, None]
    least_PT = np.stack([_least(tau, n_P[:, 0]) for tau in taus], axis=1)
    covered_PT: FloatArray = (c_P >= least_PT).astype(float)
    return covered_PT


def _least(tau: float, of: IntArray) -> IntArray:
    """Return the fewest right samples that are a share of tau; .3 of 10 is 3, not 4 by rounding."""
    least: IntArray = np.maximum(1, np.ceil(tau * of - 1e-9)).astype(int)
    return least


def _check_share(tau: float) -> None:
    if not 0 < tau <= 1:
        raise MetricError(f"tau must be above 0 and at most 1, not {tau:g}", "ask for .5, say")
