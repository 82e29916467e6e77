"""The population of problems that counts stand for, and the sampling noise of its pass@k."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from sage_cli.metrics.counts import Counts, FloatArray
from sage_cli.metrics.counts.estimator import pass_at_k
from sage_cli.metrics.intervals.distributions import beta_binomial_logs, hypergeometric, log_choose

SAMPLES = 6_000
"""Log-odds that stand for the population."""
RARE = 1e-6
"""The nearest to 0 or 1 that a success probability is taken to be."""


@dataclass(frozen=True, eq=False)
class Population:
    """A base's problems: samples of the log-odds of a right answer, and the fitted Beta's a, b.

    Each counted problem stands for its posterior under the Beta distribution that fits all counts
    best, so that neither 0 of 16 nor 16 of 16 is taken for a certainty.
    """

    logit_L: FloatArray
    beta: tuple[float, float]

    @classmethod
    def of(
        cls, counts: Counts, samples: int = SAMPLES, *, near: tuple[float, float] | None = None
    ) -> Population:
        """From a base's counts: equally many samples from each problem's posterior.

        `near` is a Beta distribution in whose neighbourhood the fitted one is sought.
        """
        a, b = fit_beta(counts, near)
        generator = np.random.default_rng(0)
        each = max(1, samples // len(counts))
        right_P, wrong_P = a + counts.c_P, b + counts.n_P - counts.c_P
        p_L = generator.beta(right_P, wrong_P, size=(each, len(counts))).ravel()
        p_L = generator.permutation(p_L)  # a stride through them then meets all problems
        p_L = np.clip(p_L, RARE, 1 - RARE)
        return cls(np.log(p_L) - np.log1p(-p_L), (a, b))

    def shifted(self, shift: float, heterogeneity: float = 0.0) -> FloatArray:
        """The log-odds after training, shape (L,); the same noise at every call."""
        noise_L = np.random.default_rng(1).standard_normal(len(self.logit_L))
        return self.logit_L + shift + heterogeneity * noise_L


def fit_beta(counts: Counts, near: tuple[float, float] | None = None) -> tuple[float, float]:
    """a, b of the Beta distribution of success probabilities that makes counts likeliest.

    The beta-binomial likelihood is searched on a grid of mean and a + b that is refined three
    times: to within 1 % of both. With `near` the first two grids, the widest, are left out.
    """
    (n_U, c_U), times_U = np.unique(np.stack([counts.n_P, counts.c_P]), axis=1, return_counts=True)
    middle, reach, rounds, points = np.array([0.0, 1.0]), np.array([8.0, 6.0]), 4, 17
    if near is not None:
        a, b = near
        middle, reach, rounds, points = np.log([a / b, a + b]), np.array([1.2, 1.2]), 2, 9
    for _ in range(rounds):
        steps = np.linspace(-1, 1, points)
        grid = [middle + reach * np.array([x, y]) for x in steps for y in steps]
        middle = max(grid, key=lambda at: beta_binomial_logs(*_shape(at), n_U, c_U) @ times_U)
        reach = reach / 6 if near is None else reach / 4
    return _shape(middle)


def _shape(point: FloatArray) -> tuple[float, float]:
    """a, b from the log-odds of their mean and the logarithm of their sum."""
    mean, total = 1 / (1 + np.exp(-point[0])), np.exp(point[1])
    return float(total * mean), float(total * (1 - mean))


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
