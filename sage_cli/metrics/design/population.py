"""The population of problems that counts of a base stand for: an empirical Bayes model."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from sage_cli.metrics.counts import Counts, FloatArray
from sage_cli.metrics.intervals.distributions import beta_binomial_logs

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
