"""What a design could see: the smallest change of a base's pass@k that `compare` would detect.

The model. Problems are drawn from a population whose success probabilities p are known from
counts of a base: each counted problem stands for its posterior under the Beta distribution that
fits all counts best (empirical Bayes), so that neither 0 of 16 nor 16 of 16 is taken for a
certainty. Training moves the problems' log-odds by normal amounts around a common shift; their
deviation, the heterogeneity, may be 0. Base and trained policy answer the same problems, each with
n samples and S evaluation seeds of their own. Their difference has the variance of the problems'
true differences, and of both unbiased estimates (exact, binomial) over S; all of it over P.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from sage_cli.metrics.counts import Counts, FloatArray, IntArray
from sage_cli.metrics.estimator import pass_at_k
from sage_cli.metrics.precision import POWER
from sage_cli.metrics.student import two_sided_reach

HETEROGENEITY = 0.5
"""Deviation of the shifts of log-odds, unless somebody knows better. Measured on the `tiny` preset,
60 problems x 256 samples, less sampling noise: .57 and .52 between the base and RL runs with and
without KL, close to 0 between those runs."""
DRAWS = 6_000
SHIFTS = np.linspace(-6, 16, 111)
"""Log-odds that are tried; from below 0, because heterogeneity alone moves the mean."""
RARE = 1e-6
"""The nearest to 0 or 1 that a success probability is taken to be."""
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
    def of(cls, counts: Counts, draws: int = DRAWS) -> Population:
        """From a base's counts: equally many draws from each problem's posterior."""
        a, b = fit_beta(counts)
        generator = np.random.default_rng(0)
        each = max(1, draws // len(counts))
        right_P, wrong_P = a + counts.c_P, b + counts.n_P - counts.c_P
        p_M = generator.beta(right_P, wrong_P, size=(each, len(counts))).ravel()
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
    confidence: float = 0.95,
    power: float = POWER,
) -> FloatArray:
    """The smallest mean gain (or `loss`) of pass@k that each design detects, shape (D, K).

    Detected: by a two-sided paired test at 1 - `confidence`, with probability `power`. In absolute
    terms, as 0.03. NaN for k above the samples, for a single problem, and where even a policy
    that is right (or wrong) everywhere would go unseen.
    """
    sign, ks_K = (-1 if loss else 1), np.asarray(ks)
    moved = [population.shifted(sign * u, heterogeneity) for u in SHIFTS]
    before_MK = _solved(population.logit_M, ks_K)
    change_UMK = (_solved(after_M, ks_K) - before_MK for after_M in moved)
    moments = [(sign * gap_MK.mean(axis=0), gap_MK.var(axis=0)) for gap_MK in change_UMK]
    mean_UK, between_UK = (np.array(part) for part in zip(*moments, strict=True))
    found_DK = np.full((len(designs), len(ks_K)), np.nan)
    for n in {design.samples for design in designs}:
        known_K = ks_K <= n
        if not known_K.any():
            continue
        noise_GK = estimator_variance(LOGITS, n, ks_K[known_K])
        own_K = _mean_at(population.logit_M, noise_GK)
        sampling_UK = own_K + np.array([_mean_at(after_M, noise_GK) for after_M in moved])
        for place, design in enumerate(designs):
            if design.samples == n and design.problems > 1:
                variance_UK = between_UK[:, known_K] + sampling_UK / design.seeds
                needed_UK = multiple(design.problems, confidence, power) * np.sqrt(
                    variance_UK / design.problems
                )
                found_DK[place, known_K] = _first_reached(mean_UK[:, known_K], needed_UK)
    return found_DK


def multiple(problems: int, confidence: float = 0.95, power: float = POWER) -> float:
    """How many standard errors of a paired difference the smallest one has: t + t, P - 1 degrees.

    As `Precision.smallest`; 2.8 for many problems at 95 % and 80 %.
    """
    freedom_1 = np.array([problems - 1.0])
    reaches = (two_sided_reach(alpha, freedom_1)[0] for alpha in (1 - confidence, 2 * (1 - power)))
    return float(sum(reaches))


def estimator_variance(logit_G: FloatArray, n: int, ks: ArrayLike) -> FloatArray:
    """The variance of pass@k's unbiased estimate from n samples, shape (G, K), exact.

    The binomial distribution of c is summed over, at each success probability.
    """
    c_C = np.arange(n + 1)
    log_ways_C = np.concatenate([[0.0], np.cumsum(np.log((n - c_C[:-1]) / c_C[1:]))])
    log_right_G, log_wrong_G = -np.logaddexp(0, -logit_G), -np.logaddexp(0, logit_G)
    chance_GC = np.exp(log_ways_C + np.outer(log_right_G, c_C) + np.outer(log_wrong_G, n - c_C))
    estimate_CK = pass_at_k(np.full(n + 1, n), c_C, np.asarray(ks))
    mean_GK = chance_GC @ estimate_CK
    variance_GK: FloatArray = np.maximum(chance_GC @ estimate_CK**2 - mean_GK**2, 0)
    return variance_GK


def fit_beta(counts: Counts) -> tuple[float, float]:
    """a, b of the Beta distribution of success probabilities that makes counts likeliest.

    The beta-binomial likelihood is searched on a grid of mean and a + b that is refined three
    times: to within 1 % of both.
    """
    pairs, seen = np.unique(np.stack([counts.n_P, counts.c_P]), axis=1, return_counts=True)
    times = seen.astype(np.int64)
    middle, reach = np.array([0.0, 1.0]), np.array([8.0, 6.0])
    for _ in range(4):
        steps = np.linspace(-1, 1, 17)
        grid = [middle + reach * np.array([x, y]) for x in steps for y in steps]
        middle = max(grid, key=lambda point: _log_likelihood(*_shape(point), pairs, times))
        reach = reach / 6
    return _shape(middle)


def _shape(point: FloatArray) -> tuple[float, float]:
    """a, b from the log-odds of their mean and the logarithm of their sum."""
    mean, total = 1 / (1 + np.exp(-point[0])), np.exp(point[1])
    return float(total * mean), float(total * (1 - mean))


def _log_likelihood(a: float, b: float, pairs: IntArray, times: IntArray) -> float:
    """Of (n, c) pairs, each seen so many `times`, up to what doesn't depend on a and b."""
    n_U, c_U = pairs
    up_to = np.arange(n_U.max())

    def rising(start: float) -> FloatArray:
        return np.concatenate([[0.0], np.cumsum(np.log(start + up_to))])

    each_U = rising(a)[c_U] + rising(b)[n_U - c_U] - rising(a + b)[n_U]
    return float(each_U @ times)


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
