"""Reliability and breadth from the same counts as pass@k: pass^k, G-Pass@k and Cover@tau."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from scipy.stats import hypergeom

from sage_cli.errors import MetricError
from sage_cli.metrics.counts import FloatArray, IntArray


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
