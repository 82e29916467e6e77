"""The sampling noise of pass@k's estimates: exact variances at known success probabilities."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from sage_cli.metrics.counts import FloatArray
from sage_cli.metrics.distributions import hypergeometric, log_choose
from sage_cli.metrics.estimator import pass_at_k

NEGLIGIBLE = 1e-12
"""Probabilities below it are left out of a mean."""


def estimator_variance(logit_G: FloatArray, n: int, ks: ArrayLike) -> FloatArray:
    """The variance of pass@k's unbiased estimate from n samples, shape (G, K), exact.

    The binomial distribution of c is summed over, at each success probability.
    """
    c_C = np.arange(n + 1)
    log_right_G, log_wrong_G = -np.logaddexp(0, -logit_G), -np.logaddexp(0, logit_G)
    log_GC = log_choose(n, c_C) + np.outer(log_right_G, c_C) + np.outer(log_wrong_G, n - c_C)
    estimate_CK = pass_at_k(np.full(n + 1, n), c_C, np.asarray(ks))
    mean_GK, square_GK = np.exp(log_GC) @ estimate_CK, np.exp(log_GC) @ estimate_CK**2
    variance_GK: FloatArray = np.maximum(square_GK - mean_GK**2, 0)
    return variance_GK


def estimator_covariance(
    a_M: FloatArray, b_M: FloatArray, n: int, ks: ArrayLike, correlation: float
) -> FloatArray:
    """The covariance of both sides' estimates of pass@k at log-odds a and b, shape (M, K), exact.

    1 - estimate is the mean, over all k-subsets of the n samples, of "none of them is right". Two
    subsets share h samples (hypergeometric), and a shared one is wrong on both sides with
    probability q_a q_b + c, where c is the grades' covariance. So the covariance is
    (q_a q_b)^k (E (1 + c / (q_a q_b))^h - 1). c is at most what the two probabilities allow.
    """
    wrong_M = -np.logaddexp(0, a_M) - np.logaddexp(0, b_M)
    right_a, right_b = -np.expm1(-np.logaddexp(0, a_M)), -np.expm1(-np.logaddexp(0, b_M))
    deviations_M = np.sqrt(right_a * (1 - right_a) * right_b * (1 - right_b))
    most_M = np.minimum(right_a, right_b) - right_a * right_b
    ratio_M = np.log1p(np.minimum(correlation * deviations_M, most_M) / np.exp(wrong_M))
    columns = []
    for k in np.asarray(ks).tolist():
        shared_H, chance_H = hypergeometric(k, n - k, k)
        likely_H = chance_H > NEGLIGIBLE
        powers_MH = np.exp(k * wrong_M[:, None] + np.outer(ratio_M, shared_H[likely_H]))
        columns.append(powers_MH @ chance_H[likely_H] - np.exp(k * wrong_M))
    covariance_MK: FloatArray = np.maximum(np.stack(columns, axis=1), 0)
    return covariance_MK
