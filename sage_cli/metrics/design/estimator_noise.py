"""The sampling noise of pass@k's estimates: exact variances at known success probabilities."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from sage_cli.metrics.counts import FloatArray
from sage_cli.metrics.counts.estimator import pass_at_k
from sage_cli.metrics.intervals.distributions import hypergeometric, log_choose

NEGLIGIBLE = 1e-12
"""Probabilities below it are left out of a mean."""


def estimator_variance(logit_L: FloatArray, n: int, ks: ArrayLike) -> FloatArray:
    """The variance of pass@k's unbiased estimate from n samples, shape (L, K), exact.

    The binomial distribution of c is summed over, at each success probability.
    """
    c_C = np.arange(n + 1)
    log_right_L, log_wrong_L = -np.logaddexp(0, -logit_L), -np.logaddexp(0, logit_L)
    log_LC = log_choose(n, c_C) + np.outer(log_right_L, c_C) + np.outer(log_wrong_L, n - c_C)
    estimate_CK = pass_at_k(np.full(n + 1, n), c_C, np.asarray(ks))
    mean_LK, square_LK = np.exp(log_LC) @ estimate_CK, np.exp(log_LC) @ estimate_CK**2
    variance_LK: FloatArray = np.maximum(square_LK - mean_LK**2, 0)
    return variance_LK


def estimator_covariance(
    a_L: FloatArray, b_L: FloatArray, n: int, ks: ArrayLike, correlation: float
) -> FloatArray:
    """The covariance of both sides' estimates of pass@k at log-odds a and b, shape (L, K), exact.

    1 - estimate is the mean, over all k-subsets of the n samples, of "none of them is right". Two
    subsets share h samples (hypergeometric), and a shared one is wrong on both sides with
    probability q_a q_b + c, where c is the grades' covariance. So the covariance is
    (q_a q_b)^k (E (1 + c / (q_a q_b))^h - 1). c is at most what the two probabilities allow.
    """
    wrong_L = -np.logaddexp(0, a_L) - np.logaddexp(0, b_L)
    right_a, right_b = -np.expm1(-np.logaddexp(0, a_L)), -np.expm1(-np.logaddexp(0, b_L))
    deviations_L = np.sqrt(right_a * (1 - right_a) * right_b * (1 - right_b))
    most_L = np.minimum(right_a, right_b) - right_a * right_b
    ratio_L = np.log1p(np.minimum(correlation * deviations_L, most_L) / np.exp(wrong_L))
    columns = []
    for k in np.asarray(ks).tolist():
        shared_C, chance_C = hypergeometric(k, n - k, k)
        likely_C = chance_C > NEGLIGIBLE
        powers_LC = np.exp(k * wrong_L[:, None] + np.outer(ratio_L, shared_C[likely_C]))
        columns.append(powers_LC @ chance_C[likely_C] - np.exp(k * wrong_L))
    covariance_LK: FloatArray = np.maximum(np.stack(columns, axis=1), 0)
    return covariance_LK
