"""Standard errors over training seeds: an analysis of variance with seeds and problems random."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from sage_cli.metrics.counts import Counts, FloatArray
from sage_cli.metrics.intervals.bands import pass_matrix, pooled_variance
from sage_cli.metrics.intervals.distributions import freedom_of, two_sided_reach

SideRuns = Sequence[Sequence[Counts]]
"""One side: for each training seed its counts, one for each evaluation seed."""

Pool = Sequence[Sequence[FloatArray]]
"""Methods whose seeds vary equally: for each benchmark its runs, shape (I, P, K)."""

Part = tuple[FloatArray, FloatArray, int]
"""A benchmark's problems: their variance of the mean, the noise in it, and their number."""

LEVEL = 0.05
"""The two-sided level at which `_fixed_side` is Howe's interval."""


def by_run(runs: SideRuns, ids: Sequence[str], ks: Sequence[int]) -> FloatArray:
    """pass@k of the problems `ids` in each run, its evaluation seeds averaged, shape (I, P, K)."""
    return np.stack([pass_matrix([seed.ordered(ids) for seed in run], ks) for run in runs])


def residual(sides: Sequence[FloatArray]) -> FloatArray:
    """The variance of a problem's value in one run around the run's and the problem's mean, pooled.

    Each side has the shape (I, P, K). 0 where every side has one run, or one problem.
    """
    squares_K, freedom = np.zeros(sides[0].shape[2]), 0
    for side_IPK in sides:
        runs, P, _ = side_IPK.shape
        rest_IPK = side_IPK - side_IPK.mean(axis=1, keepdims=True)
        rest_IPK -= rest_IPK.mean(axis=0)
        squares_K += (rest_IPK**2).sum(axis=(0, 1))
        freedom += (runs - 1) * (P - 1)
    return squares_K / max(freedom, 1)


def error_over(
    benchmarks: Sequence[tuple[FloatArray, FloatArray]], pool: Pool | None = None
) -> tuple[FloatArray, FloatArray]:
    """Standard error of A's mean less B's over benchmarks, shape (K,), and its degrees of freedom.

    Each benchmark has the shapes (I, P, K) of both sides, the same runs I on all; the mean over
    benchmarks is unweighted. Runs differ by their means over all benchmarks; each benchmark adds
    the variance of its problems. The seeds' variance is pooled over the methods of `pool`, by
    default over both sides, which assumes that it is the same under all of them.

    A side with one run, as a base, is fixed. With the model y[i, p] = mean + seed[i] + problem[p]
    + noise[i, p] for A's T runs on P problems, and y[p] = mean + problem[p] + noise[p] for B:

        the mean gap has the variance  s_seed / T + s_noise / (T P) + (s_gap + s_noise_B) / P,

    where s_gap is the variance of the problems' true differences: the common part of A and B
    cancels. A's runs' means have the variance s_seed + s_noise / P (between runs), the problems'
    mean gaps s_gap + s_noise / T + s_noise_B, and the residual of A's runs is s_noise. Hence

        variance = between runs / T + between problems / P - residual / (T P)

    is unbiased. B's noise is in the problems' gaps alone, and nothing of B is between runs: it is
    `SeedNoise.error` with the share 1/T instead of 1/T_A + 1/T_B.
    """
    sides = list(zip(*benchmarks, strict=True))
    methods = [method for method in (pool or sides) if len(method[0]) > 1]
    share = sum(1 / len(side[0]) for side in sides if len(side[0]) > 1)
    freedom = sum(len(method[0]) - 1 for method in methods)
    means = [np.mean([runs_IPK.mean(axis=1) for runs_IPK in method], axis=0) for method in methods]
    weight = 1 / len(benchmarks) ** 2
    parts = []
    for (a_IPK, b_IPK), *runs in zip(benchmarks, *methods, strict=True):
        gap_PK = a_IPK.mean(axis=0) - b_IPK.mean(axis=0)
        parts.append(_problems(gap_PK, residual(runs) * share, weight))
    fixed = any(len(side[0]) < 2 for side in sides)
    return (_fixed_side if fixed else _error)(pooled_variance(means) * share, parts, freedom)


@dataclass(frozen=True, eq=False)
class SeedNoise:
    """The differences of a method's runs: of their means, and the rest; variances of shape (K,).

    `freedom` is the number of runs beyond the first of each method.
    """

    between_K: FloatArray
    residual_K: FloatArray
    freedom: int

    @classmethod
    def seen(cls, methods: Sequence[FloatArray]) -> SeedNoise:
        """Pooled over methods, each of shape (I, P, K); at least one has two runs."""
        return cls(
            pooled_variance([runs_IPK.mean(axis=1) for runs_IPK in methods]),
            residual(methods),
            sum(len(runs_IPK) - 1 for runs_IPK in methods),
        )

    def error(self, values_PK: FloatArray, share: float) -> tuple[FloatArray, FloatArray]:
        """Standard error of the mean of `values_PK`, shape (K,), and its degrees of freedom.

        The values are a method's, averaged over T runs (`share` is 1/T), or the gaps of two
        (1/T_A + 1/T_B), problems crossed with the methods:

            variance = between runs + between problems - residual

        Between runs: the variance of the runs' means within a method times `share`: seeds, and
        the noise of sampling averaged over problems. Between problems: the variance of the values
        over P, which holds that noise once more, so the residual, the noise alone, is taken off.
        Never less than the variance between runs. Degrees of freedom after Satterthwaite (1946),
        https://doi.org/10.2307/3002019.
        """
        part = _problems(values_PK, self.residual_K * share, 1.0)
        return _error(self.between_K * share, [part], self.freedom)


def _problems(values_PK: FloatArray, residual_K: FloatArray, weight: float) -> Part:
    P = len(values_PK)
    return values_PK.var(axis=0, ddof=1) / P * weight, residual_K / P * weight, P


def _error(
    between_K: FloatArray, parts: Sequence[Part], freedom: int
) -> tuple[FloatArray, FloatArray]:
    """`SeedNoise.error` of the variance between runs and of each benchmark's problems."""
    variance_K, squares_K = between_K, between_K**2 / freedom
    for problems_K, residual_K, P in parts:
        extra_K = problems_K - residual_K
        # a component that is estimated below 0 is left out, with its degrees of freedom
        extra_squares_K = problems_K**2 / (P - 1) + residual_K**2 / (freedom * (P - 1))
        variance_K = variance_K + np.where(extra_K > 0, extra_K, 0)
        squares_K = squares_K + np.where(extra_K > 0, extra_squares_K, 0)
    freedom_K = np.divide(
        variance_K**2, squares_K, out=np.full_like(squares_K, float(freedom)), where=squares_K > 0
    )
    least = min(freedom, *(P - 1 for _, _, P in parts))
    return np.sqrt(variance_K), np.maximum(freedom_K, least)


def _fixed_side(
    between_K: FloatArray, parts: Sequence[Part], freedom: int
) -> tuple[FloatArray, FloatArray]:
    """`_error` where one side is fixed: the same variance, and Howe's interval.

    Few runs of a single side may carry nearly all of the variance. Satterthwaite's degrees of
    freedom are then too many exactly where these runs happen to agree: the interval covers .87
    with two runs and .91 with three. Howe (1974, J. Am. Stat. Assoc. 69, 789) adds the squares of
    the sources' own half-widths, each with its own t, which covers at least its level. The degrees
    of freedom are those that give Student's interval this width at `LEVEL`.
    """
    sources = [(between_K, freedom)]
    sources += [(np.maximum(problems_K - rest_K, 0), P - 1) for problems_K, rest_K, P in parts]
    variance_K = np.sum([source_K for source_K, _ in sources], axis=0)
    squares = [K * two_sided_reach(LEVEL, np.array(float(free))) ** 2 for K, free in sources]
    squares_K = np.sum(squares, axis=0)
    ratio_K = np.divide(
        squares_K, variance_K, out=np.full_like(squares_K, 2.0), where=variance_K > 0
    )
    return np.sqrt(variance_K), freedom_of(LEVEL, np.sqrt(ratio_K))
