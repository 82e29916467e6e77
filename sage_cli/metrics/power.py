"""What a design could see: the smallest change of a base's pass@k that `compare` would detect.

The model. Problems are drawn from a population whose success probabilities p are known from
counts of a base: each counted problem stands for its posterior under the Beta distribution that
fits all counts best (empirical Bayes), so that neither 0 of 16 nor 16 of 16 is taken for a
certainty. Training moves the problems' log-odds by normal amounts around a common shift; their
deviation, the heterogeneity, may be 0. Base and trained policy answer the same problems with n
samples and S evaluation seeds each, and share their random numbers: verdicts on a sample correlate.
Their difference has the variance of the problems' true differences, and that of both unbiased
estimates less twice their covariance (exact, binomial) over S; all of it over P.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from sage_cli.metrics.beta_binomial import fit_beta
from sage_cli.metrics.counts import Counts, FloatArray
from sage_cli.metrics.estimator_noise import estimator_covariance, estimator_variance
from sage_cli.metrics.precision import POWER
from sage_cli.metrics.student import two_sided_reach

HETEROGENEITY = 0.5
"""Deviation of the shifts of log-odds, unless somebody knows better. Measured on the `tiny` preset,
60 problems x 256 samples, less sampling noise: .57 and .52 between the base and RL runs with and
without KL, close to 0 between those runs."""
CORRELATION = 0.36
"""Of a base's and a trained policy's verdicts on a sample with the same random numbers, unless
somebody knows better: measured between a base and its RL policies."""
DRAWS = 6_000
FEWER = 150
"""Draws over which the covariance is averaged: it varies slowly, and a draw of it is a sum."""
SHIFTS = np.linspace(-6, 16, 111)
"""Log-odds that are tried; from below 0, because heterogeneity alone moves the mean."""
RARE = 1e-6
"""The nearest to 0 or 1 that a success probability is taken to be."""
RESAMPLES = 40
RESAMPLED_DRAWS = 600
COARSE = SHIFTS[::3]
"""Draws and shifts for a resampled population: their error is small beside that of resampling."""
LOGITS = np.linspace(-18, 18, 1441)
"""Where the estimator's variance is computed; between them it is interpolated."""


@dataclass(frozen=True)
class Design:
    """How much is measured: problems, samples per problem and seed, evaluation seeds."""

    problems: int
    samples: int
    seeds: int = 1


@dataclass(frozen=True, eq=False)
class Population:
    """A base's problems: draws of their log-odds of a right sample, and the fitted Beta's a, b."""

    logit_M: FloatArray
    beta: tuple[float, float]

    @classmethod
    def of(
        cls, counts: Counts, draws: int = DRAWS, *, near: tuple[float, float] | None = None
    ) -> Population:
        """From a base's counts: equally many draws from each problem's posterior.

        `near` is a Beta distribution in whose neighbourhood the fitted one is sought.
        """
        a, b = fit_beta(counts, near)
        generator = np.random.default_rng(0)
        each = max(1, draws // len(counts))
        right_P, wrong_P = a + counts.c_P, b + counts.n_P - counts.c_P
        p_M = generator.beta(right_P, wrong_P, size=(each, len(counts))).ravel()
        p_M = generator.permutation(p_M)  # a stride through them then meets all problems
        p_M = np.clip(p_M, RARE, 1 - RARE)
        return cls(np.log(p_M) - np.log1p(-p_M), (a, b))

    def shifted(self, shift: float, heterogeneity: float = 0.0) -> FloatArray:
        """The log-odds after training, shape (M,); the same noise at every call."""
        noise_M = np.random.default_rng(1).standard_normal(len(self.logit_M))
        return self.logit_M + shift + heterogeneity * noise_M


def smallest_changes(
    population: Population,
    designs: Sequence[Design],
    ks: Sequence[int],
    *,
    loss: bool = False,
    heterogeneity: float = HETEROGENEITY,
    correlation: float = CORRELATION,
    confidence: float = 0.95,
    power: float = POWER,
    shifts: FloatArray = SHIFTS,
) -> FloatArray:
    """The smallest mean gain (or `loss`) of pass@k that each design detects, shape (D, K).

    Detected: by a two-sided paired test at 1 - `confidence`, with probability `power`. In absolute
    terms, as 0.03. NaN for k above the samples, for a single problem, and where even a policy
    that is right (or wrong) everywhere would go unseen.
    """
    sign, ks_K = (-1 if loss else 1), np.asarray(ks)
    moved = [population.shifted(sign * u, heterogeneity) for u in shifts]
    before_MK = _solved(population.logit_M, ks_K)
    change_UMK = (_solved(after_M, ks_K) - before_MK for after_M in moved)
    moments = [(sign * gap_MK.mean(axis=0), gap_MK.var(axis=0)) for gap_MK in change_UMK]
    mean_UK, between_UK = (np.array(part) for part in zip(*moments, strict=True))
    found_DK = np.full((len(designs), len(ks_K)), np.nan)
    for n in {design.samples for design in designs}:
        known_K = ks_K <= n
        if not known_K.any():
            continue
        noise_GK = _noise(n, tuple(ks_K[known_K].tolist()))
        own_K = _mean_at(population.logit_M, noise_GK)
        sampling_UK = own_K + np.array([_mean_at(after_M, noise_GK) for after_M in moved])
        if correlation:
            some = slice(None, None, max(1, len(population.logit_M) // FEWER))
            sampling_UK -= 2 * np.array([
                estimator_covariance(
                    population.logit_M[some], after_M[some], n, ks_K[known_K], correlation
                ).mean(axis=0)
                for after_M in moved
            ])  # fmt: skip
        for place, design in enumerate(designs):
            if design.samples == n and design.problems > 1:
                variance_UK = between_UK[:, known_K] + sampling_UK / design.seeds
                needed_UK = multiple(design.problems, confidence, power) * np.sqrt(
                    variance_UK / design.problems
                )
                found_DK[place, known_K] = _first_reached(mean_UK[:, known_K], needed_UK)
    return found_DK


def resampled_changes(
    counts: Counts,
    designs: Sequence[Design],
    ks: Sequence[int],
    *,
    beta: tuple[float, float],
    loss: bool = False,
    heterogeneity: float = HETEROGENEITY,
    correlation: float = CORRELATION,
    confidence: float = 0.95,
) -> FloatArray:
    """Low and high ends of the smallest changes, shape (2, D, K): the counted problems resampled.

    The population is known from the counted problems alone; others of the kind would give another
    answer. `beta` is the distribution that fits all of them. An end of inf says that no change
    may be large enough.
    """
    generator, found = np.random.default_rng(3), []
    for _ in range(RESAMPLES):
        place_P = generator.integers(0, len(counts), len(counts))
        ids = tuple(map(str, range(len(counts))))
        population = Population.of(
            Counts(ids, counts.n_P[place_P], counts.c_P[place_P]), RESAMPLED_DRAWS, near=beta
        )
        found.append(smallest_changes(
            population, designs, ks, loss=loss, heterogeneity=heterogeneity,
            correlation=correlation, confidence=confidence, shifts=COARSE,
        ))  # fmt: skip
    tail = (1 - confidence) / 2
    ends = np.where(np.isnan(found), np.inf, found)
    ends_2DK: FloatArray = np.quantile(ends, [tail, 1 - tail], axis=0, method="inverted_cdf")
    return ends_2DK


def multiple(problems: int, confidence: float = 0.95, power: float = POWER) -> float:
    """How many standard errors of a paired difference the smallest one has: t + t, P - 1 degrees.

    As `Precision.smallest`; 2.8 for many problems at 95 % and 80 %.
    """
    freedom_1 = np.array([problems - 1.0])
    reaches = (two_sided_reach(alpha, freedom_1)[0] for alpha in (1 - confidence, 2 * (1 - power)))
    return float(sum(reaches))


@lru_cache(maxsize=64)
def _noise(n: int, ks: tuple[int, ...]) -> FloatArray:
    """`estimator_variance` at `LOGITS`."""
    return estimator_variance(LOGITS, n, ks)


def _solved(logit_M: FloatArray, ks_K: FloatArray) -> FloatArray:
    """The chance that k samples hold a right one, 1 - (1 - p)^k, shape (M, K)."""
    return -np.expm1(np.multiply.outer(-np.logaddexp(0, logit_M), ks_K))


def _mean_at(logit_M: FloatArray, values_GK: FloatArray) -> FloatArray:
    """The mean over M log-odds of a function that is known at `LOGITS`."""
    return np.array([np.interp(logit_M, LOGITS, column).mean() for column in values_GK.T])


def _first_reached(mean_UK: FloatArray, needed_UK: FloatArray) -> FloatArray:
    """The mean change where it first is as large as what is needed; between shifts, on the line."""
    found_K = np.full(mean_UK.shape[1], np.nan)
    over_UK = mean_UK - needed_UK
    for k, (mean_U, over_U) in enumerate(zip(mean_UK.T, over_UK.T, strict=True)):
        reached = np.flatnonzero((over_U[1:] >= 0) & (over_U[:-1] < 0))
        if reached.size:
            u = int(reached[0])
            part = over_U[u] / (over_U[u] - over_U[u + 1])
            found_K[k] = mean_U[u] + part * (mean_U[u + 1] - mean_U[u])
    return found_K
