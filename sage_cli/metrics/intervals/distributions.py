"""Probability distributions over SciPy: Student's t, binomial, hypergeometric, beta-binomial.

SciPy is imported where it is used: it takes longer to load than NumPy, and most reports need none.
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np
from numpy.typing import ArrayLike

from sage_cli.metrics.counts import FloatArray, IntArray


def two_sided_p(t_K: FloatArray, freedom_K: FloatArray) -> FloatArray:
    """The probability that |T| is at least |t|, T with `freedom` degrees of freedom."""
    from scipy.special import stdtr

    return np.asarray(2 * stdtr(freedom_K, -np.abs(t_K)))


def two_sided_reach(alpha: float, freedom_K: FloatArray) -> FloatArray:
    """The t that |T| exceeds with probability `alpha`: 2.776 for 5 % and 4 degrees of freedom."""
    from scipy.special import stdtrit

    return np.asarray(-stdtrit(freedom_K, alpha / 2))


def freedom_of(alpha: float, reach_K: FloatArray) -> FloatArray:
    """The degrees of freedom with which |T| exceeds `reach` with probability `alpha`."""
    from scipy.special import stdtridf

    return np.asarray(stdtridf(1 - alpha / 2, reach_K))


def log_choose(n: ArrayLike, k: ArrayLike) -> FloatArray:
    """The logarithm of the number of k-subsets of n things; the arguments broadcast."""
    from scipy.special import gammaln

    n_, k_ = np.asarray(n), np.asarray(k)
    return np.asarray(gammaln(n_ + 1) - gammaln(k_ + 1) - gammaln(n_ - k_ + 1))


@lru_cache(maxsize=4096)
def fair_binomial(n: int) -> tuple[IntArray, FloatArray]:
    """The counts 0 to n and their probabilities under Binomial(n, 1/2), shape (C,) each."""
    count_C = np.arange(n + 1)
    return count_C, np.exp(log_choose(n, count_C) - n * np.log(2))


@lru_cache(maxsize=4096)
def hypergeometric(n: int, rest: int, right: int) -> tuple[IntArray, FloatArray]:
    """Right ones among the first n of n + `rest` samples, `right` of which are right.

    The possible counts and their probabilities, shape (C,) each.
    """
    count_C = np.arange(max(0, right - rest), min(n, right) + 1)
    logs_C = log_choose(n, count_C) + log_choose(rest, right - count_C)
    chance_C = np.exp(logs_C - logs_C.max())
    return count_C, chance_C / chance_C.sum()


def beta_binomial_logs(a: float, b: float, n_U: IntArray, c_U: IntArray) -> FloatArray:
    """The log-probability of one sequence with c right ones of n, its chance from Beta(a, b)."""
    from scipy.special import betaln

    return np.asarray(betaln(a + c_U, b + n_U - c_U) - betaln(a, b))


def holm(p: ArrayLike) -> FloatArray:
    """Holm's adjusted p-values, in the order and shape of `p` (Holm 1979, Scand. J. Statist. 6).

    The m-th smallest of M is multiplied by M - m + 1, and none is smaller than one before it.
    Rejecting where the adjusted value is at most alpha rejects any true hypothesis with
    probability alpha at most, however the tests depend on each other. NaN is no test: it stays
    NaN and isn't counted.
    """
    adjusted = np.array(p, float)
    known = ~np.isnan(adjusted)
    values = adjusted[known]
    order = np.argsort(values, kind="stable")
    stepped = np.maximum.accumulate(values[order] * np.arange(len(values), 0, -1))
    values[order] = np.minimum(stepped, 1.0)
    adjusted[known] = values
    return adjusted
