"""The power of a design: the smallest change of a base's pass@k that `compare` would detect.

The model. Problems are drawn from a population whose success probabilities p are known from
counts of a base (`population.py`). Training moves the problems' log-odds by normal amounts around
a common shift; their deviation, the heterogeneity, may be 0. Base and trained policy answer the
same problems with n samples and S evaluation seeds each, and share their random numbers: grades of
a sample correlate. Their difference has the variance of the problems' true differences, and that
of both unbiased estimates less twice their covariance (exact, binomial) over S; all of it over P.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from sage_cli.metrics.counts import Counts, FloatArray
from sage_cli.metrics.design.population import Population, estimator_covariance, estimator_variance
from sage_cli.metrics.design.precision import POWER
from sage_cli.metrics.intervals.distributions import two_sided_reach

HETEROGENEITY = 0.5
"""Default deviation of the shifts of log-odds. Measured on the `tiny` preset, 60 problems x 256
samples, less sampling noise: .57 and .52 between the base and RL runs with and without KL, close to
0 between those runs."""
CORRELATION = 0.36
"""Default correlation of a base's and a trained policy's grades of a sample with the same random
numbers, measured between a base and its RL policies."""
COVARIANCE_SAMPLES = 150
"""Log-odds over which the covariance is averaged: it varies slowly, and each of it is a sum."""
SHIFTS = np.linspace(-6, 16, 111)
"""Log-odds that are tried; from below 0, because heterogeneity alone moves the mean."""
RESAMPLES = 40
RESAMPLED_SAMPLES = 600
COARSE = SHIFTS[::3]
"""Samples and shifts for a resampled population: their error is small beside that of resampling."""
LOGITS = np.linspace(-18, 18, 1441)
"""Log-odds at which the estimator's variance is computed; between them it is interpolated."""


@dataclass(frozen=True)
class Design:
    """The amount that is measured: `samples` per problem and evaluation seed, `seeds` of these."""

    problems: int
    samples: int
    seeds: int = 1


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
    """The smallest mean gain (or `loss`) of pass@k that each design detects, shape (Q, K).

    Detected: by a two-sided paired test at 1 - `confidence`, with probability `power`. In absolute
    terms, as 0.03. NaN for k above the samples, for a single problem, and where even a policy
    that is right (or wrong) everywhere would go unseen.
    """
    sign, ks_K = (-1 if loss else 1), np.asarray(ks)
    moved = [population.shifted(sign * shift, heterogeneity) for shift in shifts]
    before_LK = _solved(population.logit_L, ks_K)
    change_ELK = (_solved(after_L, ks_K) - before_LK for after_L in moved)
    moments = [(sign * gap_LK.mean(axis=0), gap_LK.var(axis=0)) for gap_LK in change_ELK]
    mean_EK, between_EK = (np.array(part) for part in zip(*moments, strict=True))
    smallest_QK = np.full((len(designs), len(ks_K)), np.nan)
    for n in {design.samples for design in designs}:
        known_K = ks_K <= n
        if not known_K.any():
            continue
        sampling_EK = _sampling(population.logit_L, moved, n, ks_K[known_K], correlation)
        for place, design in enumerate(designs):
            if design.samples == n and design.problems > 1:
                variance_EK = between_EK[:, known_K] + sampling_EK / design.seeds
                errors_EK = np.sqrt(variance_EK / design.problems)
                needed_EK = multiple(design.problems - 1, confidence, power) * errors_EK
                smallest_QK[place, known_K] = _first_reached(mean_EK[:, known_K], needed_EK)
    return smallest_QK


def resampled_changes(
    counts: Counts,
    designs: Sequence[Design],
    ks: Sequence[int],
    *,
    beta: tuple[float, float],
    confidence: float = 0.95,
    **assumed: Any,
) -> FloatArray:
    """Low and high ends of the smallest changes, shape (2, Q, K): the counted problems resampled.

    The population is known from the counted problems alone; others of the kind would give another
    answer. `beta` is the distribution that fits all of them; `assumed` are further options of
    `smallest_changes`. An end of inf says that no change may be large enough.
    """
    generator, changes = np.random.default_rng(3), []
    ids = tuple(map(str, range(len(counts))))
    for _ in range(RESAMPLES):
        place_P = generator.integers(0, len(counts), len(counts))
        resampled = Counts(ids, counts.n_P[place_P], counts.c_P[place_P])
        population = Population.of(resampled, RESAMPLED_SAMPLES, near=beta)
        changes.append(
            smallest_changes(
                population, designs, ks, confidence=confidence, shifts=COARSE, **assumed
            )
        )
    tail = (1 - confidence) / 2
    ends = np.where(np.isnan(changes), np.inf, changes)
    ends_2QK: FloatArray = np.quantile(ends, [tail, 1 - tail], axis=0, method="inverted_cdf")
    return ends_2QK


def multiple(freedom: ArrayLike, confidence: float = 0.95, power: float = POWER) -> FloatArray:
    """The standard errors of a paired difference in the smallest one: t + t.

    As `Precision.smallest`; 2.8 for many degrees of freedom at 95 % and 80 %.
    """
    degrees = np.asarray(freedom, dtype=float)
    return two_sided_reach(1 - confidence, degrees) + two_sided_reach(2 * (1 - power), degrees)


def _sampling(
    before_L: FloatArray,
    moved: Sequence[FloatArray],
    n: int,
    ks_K: FloatArray,
    correlation: float,
) -> FloatArray:
    """The variance that n samples a side add to a problem's difference at each shift, (E, K)."""
    noise_LK = _noise(n, tuple(ks_K.tolist()))

    def mean_noise(logit_L: FloatArray) -> FloatArray:
        return np.array([np.interp(logit_L, LOGITS, noise_L).mean() for noise_L in noise_LK.T])

    after_EK = np.array([mean_noise(after_L) for after_L in moved])
    sampling_EK: FloatArray = mean_noise(before_L) + after_EK
    if not correlation:
        return sampling_EK
    some = slice(None, None, max(1, len(before_L) // COVARIANCE_SAMPLES))
    covariances = [
        estimator_covariance(before_L[some], after_L[some], n, ks_K, correlation).mean(axis=0)
        for after_L in moved
    ]
    sampling_EK -= 2 * np.array(covariances)
    return sampling_EK


@lru_cache(maxsize=64)
def _noise(n: int, ks: tuple[int, ...]) -> FloatArray:
    """`estimator_variance` at `LOGITS`."""
    return estimator_variance(LOGITS, n, ks)


def _solved(logit_L: FloatArray, ks_K: FloatArray) -> FloatArray:
    """The probability that k samples hold a right one, 1 - (1 - p)^k, shape (L, K)."""
    return -np.expm1(np.multiply.outer(-np.logaddexp(0, logit_L), ks_K))


def _first_reached(mean_EK: FloatArray, needed_EK: FloatArray) -> FloatArray:
    """The mean change where it first is as large as needed; linear between shifts."""
    change_K = np.full(mean_EK.shape[1], np.nan)
    over_EK = mean_EK - needed_EK
    for k, (mean_E, over_E) in enumerate(zip(mean_EK.T, over_EK.T, strict=True)):
        reached = np.flatnonzero((over_E[1:] >= 0) & (over_E[:-1] < 0))
        if reached.size:
            u = int(reached[0])
            part = over_E[u] / (over_E[u] - over_E[u + 1])
            change_K[k] = mean_E[u] + part * (mean_E[u + 1] - mean_E[u])
    return change_K
