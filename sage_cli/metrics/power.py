"""The population of problems that counts stand for, and the sampling noise of its pass@k."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from sage_cli.metrics.counts import Counts
from sage_cli.metrics.differences import Difference
from sage_cli.metrics.error_sources import (
    Arms,
    ErrorSources,
    SideRuns,
    by_run,
    error_over,
    residual,
)
from sage_cli.metrics.estimators import FloatArray, pass_at_k
from sage_cli.metrics.intervals import (
    USUAL,
    Resampling,
    beta_binomial_logs,
    log_choose,
    two_sided_reach,
)

_SAMPLES = 6_000
"""Log-odds that stand for the population."""
RARE = 1e-6
"""The nearest to 0 or 1 that a success probability is taken to be."""
POWER = 0.8
"""The probability of detecting the smallest detectable difference."""
HETEROGENEITY = 0.5
"""Deviation of the shifts of log-odds: problems don't all change alike. Measured on the `tiny`
preset, 60 problems x 256 samples, less sampling noise: .57 and .52 between the base and RL runs
with and without KL, close to 0 between those runs."""
SHIFTS = np.linspace(-6, 16, 111)
"""Log-odds that are tried; from below 0, because heterogeneity alone moves the mean."""
LOGITS = np.linspace(-18, 18, 1441)
"""Log-odds at which the estimator's variance is computed; between them it is interpolated."""


@dataclass(frozen=True, eq=False)
class Population:
    """A base's problems: samples of the log-odds of a correct answer, and the fitted Beta's a, b.

    Each counted problem stands for its posterior under the Beta distribution that fits all counts
    best, so that neither 0 of 16 nor 16 of 16 is taken for a certainty.
    """

    logit_L: FloatArray
    beta: tuple[float, float]

    @classmethod
    def from_counts(cls, counts: Counts) -> Population:
        """From a base's counts: equally many samples from each problem's posterior."""
        a, b = fit_beta(counts)
        generator = np.random.default_rng(0)
        each = max(1, _SAMPLES // len(counts))
        right_P, wrong_P = a + counts.c_P, b + counts.n_P - counts.c_P
        p_L = generator.beta(right_P, wrong_P, size=(each, len(counts))).ravel()
        # A Beta with a tiny parameter draws exact zeros, whose log-odds are infinite.
        p_L = np.clip(p_L, RARE, 1 - RARE)
        return cls(np.log(p_L) - np.log1p(-p_L), (a, b))

    def shifted(self, shift: float) -> FloatArray:
        """The log-odds after training, shape (L,); the same noise at every call."""
        # Common random numbers: the detectable change is found by walking along the shifts, and
        # fresh noise would make that path jump.
        noise_L = np.random.default_rng(1).standard_normal(len(self.logit_L))
        return self.logit_L + shift + HETEROGENEITY * noise_L


def fit_beta(counts: Counts) -> tuple[float, float]:
    """a, b of the Beta distribution of success probabilities that makes counts likeliest.

    The beta-binomial likelihood is searched on a grid of mean and a + b that is refined three
    times: to within 1% of both.
    """
    (n_U, c_U), times_U = np.unique(np.stack([counts.n_P, counts.c_P]), axis=1, return_counts=True)
    # A grid and no gradient: the likelihood has a ridge where all problems are solved or none is,
    # along which Newton's method runs away.
    middle, reach, steps = np.array([0.0, 1.0]), np.array([8.0, 6.0]), np.linspace(-1, 1, 17)
    for _ in range(4):
        grid = [middle + reach * np.array([x, y]) for x in steps for y in steps]
        middle = max(grid, key=lambda point: beta_binomial_logs(*_shape(point), n_U, c_U) @ times_U)
        reach = reach / 6
    return _shape(middle)


def _shape(point: FloatArray) -> tuple[float, float]:
    """a, b from the log-odds of their mean and the logarithm of their sum."""
    mean, total = 1 / (1 + np.exp(-point[0])), np.exp(point[1])
    return float(total * mean), float(total * (1 - mean))


def estimator_variance(logit_L: FloatArray, n: int, ks: ArrayLike) -> FloatArray:
    """The variance of pass@k's unbiased estimate from n samples, shape (L, K), exact.

    The binomial distribution of c is summed over, at each success probability.
    """
    c_C = np.arange(n + 1)
    log_right_L, log_wrong_L = -np.logaddexp(0, -logit_L), -np.logaddexp(0, logit_L)
    log_LC = log_choose(n, c_C) + np.outer(log_right_L, c_C) + np.outer(log_wrong_L, n - c_C)
    estimate_CK = pass_at_k(np.full(n + 1, n), c_C, np.asarray(ks))
    mean_LK, square_LK = np.exp(log_LC) @ estimate_CK, np.exp(log_LC) @ estimate_CK**2
    # The difference of two nearly equal numbers can be below 0 by rounding where the estimator
    # hardly varies.
    variance_LK: FloatArray = np.maximum(square_LK - mean_LK**2, 0)
    return variance_LK


@dataclass(frozen=True, eq=False)
class Precision:
    """A minus B in mean pass@k at each k, and the sources of its error.

    The error is NaN where none can be known: fewer than two problems, or no two that differ.
    `gap_PK` are the problems' differences where these alone are the error, on one benchmark.
    """

    mean_K: FloatArray
    sources: ErrorSources
    gap_PK: FloatArray | None = None

    @property
    def error(self) -> FloatArray:
        """The standard error of the mean; NaN where nothing varies."""
        error_K = self.sources.error
        return np.where(error_K > 0, error_K, np.nan)

    def smallest(self, confidence: float = 0.95, power: float = POWER) -> FloatArray:
        """The smallest true difference that a two-sided test finds with probability `power`.

        (t[1 - alpha/2] + t[power]) standard errors (Bloom 1995, Evaluation Review 19(5), "minimum
        detectable effects"): that far from 0 the estimate exceeds the test's threshold in `power`
        of all repetitions, as long as the error is the same. Of several sources, each has its own
        t. NaN where that is more than 1, which no difference can be.
        """
        smallest_K = self._reach(1 - confidence) + self._reach(2 * (1 - power))
        return np.where(smallest_K <= 1, smallest_K, np.nan)

    def detectable(self, difference: Difference, power: float = POWER) -> FloatArray:
        """The same for the test of `difference`, whose interval may be wider than by its error.

        Its test finds a difference once the interval's end on that side passes 0. So the smallest
        one is the reach of that interval, and t[power] times the error of its end. That error is
        smaller than that of the mean where few problems differ, since the reach grows with what
        they add; the delta method takes off too much, as the skewness is an estimate itself, and
        the middle of both is used. Simulated power at the stated value: docs/results/coverage.md.
        """
        reach_K = np.where(
            self.mean_K < 0, difference.high_K - self.mean_K, self.mean_K - difference.low_K
        )
        end_K = self._end_share(np.minimum(reach_K, self._reach(1 - difference.confidence)))
        smallest_K = reach_K + self._reach(2 * (1 - power)) * end_K
        return np.where(smallest_K <= 1, smallest_K, np.nan)

    def _end_share(self, reach_K: FloatArray) -> FloatArray:
        """The error of mean - reach, the reach as its error varies, in units of the mean's error.

        With d the problems' deviations towards the mean, the former is the error of
        d - reach (d^2 / variance - 1) / 2; half of its distance to the mean's is taken. The reach
        is Student's at most: the part beyond is there for unseen problems and doesn't vary.
        """
        if self.gap_PK is None or len(self.gap_PK) < 2:
            return np.ones_like(reach_K)
        off_PK = (self.gap_PK - self.mean_K) * np.where(self.mean_K < 0, -1, 1)
        variance_K = off_PK.var(axis=0, ddof=1)
        scale_K = np.divide(reach_K, variance_K, out=np.zeros_like(reach_K), where=variance_K > 0)
        end_PK = off_PK - scale_K * off_PK**2 / 2
        deviation_K = np.where(variance_K > 0, np.sqrt(variance_K), np.nan)
        end_K: FloatArray = (1 + end_PK.std(axis=0, ddof=1) / deviation_K) / 2
        return end_K

    def interval(self, confidence: float = 0.95) -> tuple[FloatArray, FloatArray]:
        """The interval of the difference by its sources alone, within [-1, 1]."""
        half_K = self._reach(1 - confidence)
        return np.maximum(self.mean_K - half_K, -1), np.minimum(self.mean_K + half_K, 1)

    def p(self) -> FloatArray:
        """Two-sided p-values of "no difference"; NaN without an error."""
        return self.sources.p(self.mean_K)

    def _reach(self, alpha: float) -> FloatArray:
        """The half-width of the interval at the level `alpha`; NaN without an error."""
        return np.where(self.sources.error > 0, self.sources.reach(alpha), np.nan)


def precision(
    benchmarks: Sequence[tuple[SideRuns, SideRuns]],
    ks: Sequence[int],
    *,
    paired: bool = False,
    arms: Arms | None = None,
    resampling: Resampling = USUAL,
) -> Precision:
    """The difference of two sides, and of its unweighted mean over several benchmarks.

    The sources of error are those of `error_over`, as in the interval that `compare` prints: the
    problems of each benchmark, or their clusters, and the training seeds of a side with several.
    """
    sides = []
    for a_runs, b_runs in benchmarks:
        ids = a_runs[0][0].problem_ids
        runs = (by_run(a_runs, ids, ks), by_run(b_runs, ids, ks))
        sides.append((resampling.drawn_units(runs[0], ids), resampling.drawn_units(runs[1], ids)))
    gaps = [a_IPK.mean(axis=0) - b_IPK.mean(axis=0) for a_IPK, b_IPK in sides]
    mean_K = np.mean([gap_PK.mean(axis=0) for gap_PK in gaps], axis=0)
    two_models = max(map(len, sides[0])) == 1
    return Precision(
        mean_K,
        error_over(sides, paired=paired, arms=arms),
        gaps[0] if len(gaps) == 1 and two_models else None,
    )


@dataclass(frozen=True)
class Design:
    """The amount that is measured: `samples` per problem and evaluation seed, `seeds` of these."""

    problems: int
    samples: int
    seeds: int = 1


def smallest_changes(
    population: Population, designs: Sequence[Design], ks: Sequence[int], confidence: float = 0.95
) -> FloatArray:
    """The smallest mean gain of pass@k that each design detects, shape (Q, K).

    Detected: by a two-sided paired test at 1 - `confidence`, with probability `POWER`; the two
    policies' samples are independent. In absolute terms, such as 0.03. NaN for k above the samples,
    for a single problem, and where even a policy that is correct everywhere would go unseen.
    """
    ks_K = np.asarray(ks)
    moved = [population.shifted(shift) for shift in SHIFTS]
    before_LK = _solved(population.logit_L, ks_K)
    change_ELK = (_solved(after_L, ks_K) - before_LK for after_L in moved)
    moments = [(gap_LK.mean(axis=0), gap_LK.var(axis=0)) for gap_LK in change_ELK]
    mean_EK, between_EK = (np.array(part) for part in zip(*moments, strict=True))
    smallest_QK = np.full((len(designs), len(ks_K)), np.nan)
    for n in {design.samples for design in designs}:
        known_K = ks_K <= n
        if not known_K.any():
            continue
        noise_LK = estimator_variance(LOGITS, n, ks_K[known_K])
        sampling_EK = _mean_noise(population.logit_L, noise_LK) + np.array(
            [_mean_noise(after_L, noise_LK) for after_L in moved]
        )
        for index, design in enumerate(designs):
            if design.samples == n and design.problems > 1:
                variance_EK = between_EK[:, known_K] + sampling_EK / design.seeds
                errors_EK = np.sqrt(variance_EK / design.problems)
                needed_EK = multiple(design.problems - 1, confidence) * errors_EK
                smallest_QK[index, known_K] = _first_reached(mean_EK[:, known_K], needed_EK)
    return smallest_QK


def multiple(freedom: ArrayLike, confidence: float = 0.95, power: float = POWER) -> FloatArray:
    """The standard errors of a paired difference in the smallest one: t + t.

    As `Precision.smallest`; 2.8 for many degrees of freedom at 95% and 80%.
    """
    degrees = np.asarray(freedom, dtype=float)
    return two_sided_reach(1 - confidence, degrees) + two_sided_reach(2 * (1 - power), degrees)


def _mean_noise(logit_L: FloatArray, noise_LK: FloatArray) -> FloatArray:
    """The mean of `noise_LK`, which is known at `LOGITS`, over the problems, shape (K,)."""
    return np.array([np.interp(logit_L, LOGITS, noise_L).mean() for noise_L in noise_LK.T])


def _solved(logit_L: FloatArray, ks_K: FloatArray) -> FloatArray:
    """The probability that k samples hold a correct one, 1 - (1 - p)^k, shape (L, K)."""
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


@dataclass(frozen=True, eq=False)
class SeedVariation:
    """How a gap of two methods varies, (K,) each: over training seeds, problems, and the rest.

    `seeds` are the independent sources of the seeds' variance: one of pairs, or one for each side.
    `problems_K` is the variance of the problems' true gaps, `rest_K` that of a problem's gap in one
    pair of runs around both, mostly the noise of sampling. `known` says on how many training runs
    of a side it rests.
    """

    seeds: tuple[FloatArray, ...]
    problems_K: FloatArray
    rest_K: FloatArray
    known: int

    def detectable(
        self, training_seeds: int, problems: int, confidence: float = 0.95, power: float = POWER
    ) -> FloatArray:
        """The smallest true difference found with so many seeds a side and problems, (K,).

        As `Precision.smallest`, with Howe's interval. NaN for one seed, or where that is above 1.
        """
        if training_seeds < 2 or problems < 2:
            return np.full_like(self.rest_K, np.nan)
        sides = len(self.seeds)
        # the rest is noise in each side's runs alike; in the runs' means it is averaged
        seeds = [(one_K + self.rest_K / sides / problems) / training_seeds for one_K in self.seeds]
        sources = ErrorSources(
            np.stack([*seeds, self.problems_K / problems]),
            np.array([training_seeds - 1.0] * sides + [problems - 1.0]),
        )
        smallest_K = sources.reach(1 - confidence) + sources.reach(2 * (1 - power))
        return np.where(smallest_K <= 1, smallest_K, np.nan)


def variation_of_pairs(a_IPK: FloatArray, b_IPK: FloatArray) -> SeedVariation:
    """From the runs of two methods, run i of both with one training seed; at least two pairs."""
    gap_IPK = a_IPK - b_IPK
    T, P, _ = gap_IPK.shape
    # Variance components of a two-way layout without replication: the mean squares of runs and of
    # problems each contain the residual, divided by the other's size, and it is taken off. A
    # negative component is an estimate of 0.
    rest_K = residual([gap_IPK])
    between_K = gap_IPK.mean(axis=1).var(axis=0, ddof=1) - rest_K / P
    problems_K = gap_IPK.mean(axis=0).var(axis=0, ddof=1) - rest_K / T
    return SeedVariation((np.maximum(between_K, 0),), np.maximum(problems_K, 0), rest_K, T)


def variation_of_sides(sides: Sequence[FloatArray]) -> SeedVariation:
    """From the runs (I, P, K) of two methods whose seeds are their own, or of one for both sides.

    Of one method alone nothing is known of how another's effect differs between problems: the
    result is the least that seeds and sampling allow.
    """
    both = [*sides, *sides][:2]
    rests = [residual([runs_IPK]) for runs_IPK in both]
    between = tuple(
        np.maximum(runs_IPK.mean(axis=1).var(axis=0, ddof=1) - rest_K / runs_IPK.shape[1], 0)
        for runs_IPK, rest_K in zip(both, rests, strict=True)
    )
    noise_K = sum(rest_K / len(runs_IPK) for runs_IPK, rest_K in zip(both, rests, strict=True))
    problems_K = np.zeros_like(rests[0])
    if len(sides) > 1:
        gap_PK = both[0].mean(axis=0) - both[1].mean(axis=0)
        problems_K = np.maximum(gap_PK.var(axis=0, ddof=1) - noise_K, 0)
    return SeedVariation(between, problems_K, rests[0] + rests[1], min(map(len, sides)))


def variation_of_deviation(
    counts: Counts, ks: Sequence[int], deviation: float, correlation: float | None = None
) -> SeedVariation:
    """From one model's counts and the deviation of pass@k between training seeds.

    Seeds of both methods correlate by `correlation`, or are their own. The rest is the noise of
    sampling alone: the least that is possible, as in `variation_of_sides`.
    """
    ks_K = np.asarray(ks)
    logit_L = Population.from_counts(counts).logit_L
    noise_K = estimator_variance(logit_L, int(counts.n_P.min()), ks_K).mean(axis=0)
    square_K = np.full(len(ks), deviation**2)
    paired = correlation is not None
    seeds = (2 * (1 - (correlation or 0.0)) * square_K,) if paired else (square_K, square_K)
    return SeedVariation(seeds, np.zeros(len(ks)), 2 * noise_K, 0)
