"""Two methods compared over their training seeds: seed and problem both random."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from sage_cli.errors import MetricError
from sage_cli.metrics.bands import pass_matrix
from sage_cli.metrics.comparison import Difference, gap_interval
from sage_cli.metrics.counts import Counts, FloatArray
from sage_cli.metrics.student import two_sided_p, two_sided_reach

Run = Sequence[Counts]
"""One training seed: its counts, one for each evaluation seed."""


def method_difference(
    a_runs: Sequence[Run],
    b_runs: Sequence[Run],
    ks: Sequence[int],
    *,
    confidence: float = 0.95,
    resamples: int = 2000,
    seed: int = 0,
) -> Difference:
    """Method A less method B, with the uncertainty that other seeds and other problems bring.

    Student's t with the variance and the degrees of freedom of `SeedNoise.error`. Where no
    variance is seen at all, the interval of the mean gaps over problems takes its place
    (`resamples` and `seed` are for that). Raises MetricError for fewer than two runs of either
    method or two problems.
    """
    if min(len(a_runs), len(b_runs)) < 2:
        raise MetricError(
            "a method needs at least two training seeds to be compared as a method; "
            f"got {len(a_runs)} and {len(b_runs)} runs",
            "name more runs as A1,A2,A3 B1,B2,B3, or compare one run with one run",
        )
    ids = a_runs[0][0].problem_ids
    if len(ids) < 2:
        raise MetricError("one problem alone says nothing about other problems")
    a_TPK, b_TPK = by_run(a_runs, ids, ks), by_run(b_runs, ids, ks)
    gap_PK = a_TPK.mean(axis=0) - b_TPK.mean(axis=0)
    mean_K, (error_K, freedom_K) = gap_PK.mean(axis=0), error_of(a_TPK, b_TPK)
    ends_3K = np.empty((3, len(mean_K)))
    seen_K = error_K > 0
    ends_3K[:, seen_K] = _student(mean_K[seen_K], error_K[seen_K], freedom_K[seen_K], confidence)
    if not seen_K.all():
        unseen = gap_interval(
            gap_PK[:, ~seen_K], confidence=confidence, resamples=resamples, seed=seed
        )
        ends_3K[:, ~seen_K] = unseen.low_K, unseen.high_K, unseen.p_K
    low_K, high_K, p_K = ends_3K
    return Difference(
        tuple(map(int, ks)), mean_K, low_K, high_K, p_K, confidence, len(gap_PK),
        (len(a_runs), len(b_runs)),
    )  # fmt: skip


def error_of(a_TPK: FloatArray, b_TPK: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Standard error of A's mean less B's, shape (K,), and its degrees of freedom."""
    return error_over([(a_TPK, b_TPK)])


def error_over(
    benchmarks: Sequence[tuple[FloatArray, FloatArray]],
) -> tuple[FloatArray, FloatArray]:
    """The same of the unweighted mean over benchmarks, on which both methods have the same runs.

    Runs differ by their means over all benchmarks; each benchmark adds what its problems bring.
    """
    sides = list(zip(*benchmarks, strict=True))
    share = sum(1 / len(side[0]) for side in sides)
    freedom = sum(len(side[0]) - 1 for side in sides)
    means = [np.mean([runs_TPK.mean(axis=1) for runs_TPK in side], axis=0) for side in sides]
    weight = 1 / len(benchmarks) ** 2
    parts = []
    for a_TPK, b_TPK in benchmarks:
        gap_PK = a_TPK.mean(axis=0) - b_TPK.mean(axis=0)
        parts.append(_problems(gap_PK, residual([a_TPK, b_TPK]) * share, weight))
    return _error(between_runs(means) * share, parts, freedom)


@dataclass(frozen=True, eq=False)
class SeedNoise:
    """How much one method's runs differ: their means, and the rest, each a variance of shape (K,).

    `freedom` is how many runs there are beyond the first of each method.
    """

    between_K: FloatArray
    residual_K: FloatArray
    freedom: int

    @classmethod
    def seen(cls, methods: Sequence[FloatArray]) -> SeedNoise:
        """Pooled over methods, each of shape (T, P, K); at least one has two runs."""
        return cls(
            between_runs([runs_TPK.mean(axis=1) for runs_TPK in methods]),
            residual(methods),
            sum(len(runs_TPK) - 1 for runs_TPK in methods),
        )

    def error(self, values_PK: FloatArray, share: float) -> tuple[FloatArray, FloatArray]:
        """Standard error of the mean of `values_PK`, shape (K,), and its degrees of freedom.

        The values are a method's, averaged over T runs (`share` is 1/T), or the gaps of two
        (1/T_A + 1/T_B). An analysis of variance with seeds and problems random, problems crossed
        with the methods:

            variance = between runs + between problems - residual

        Between runs: the runs' means, their variance within a method times `share`. It holds the
        seeds and the noise of sampling, averaged over problems. Between problems: the variance of
        the values over P. It holds how differently problems fare, and that noise once more; so
        the residual, which is the noise alone, is taken off. Never less than what is seen between
        runs. Degrees of freedom after Satterthwaite (1946), https://doi.org/10.2307/3002019.
        """
        part = _problems(values_PK, self.residual_K * share, 1.0)
        return _error(self.between_K * share, [part], self.freedom)


def _problems(
    values_PK: FloatArray, residual_K: FloatArray, weight: float
) -> tuple[FloatArray, FloatArray, int]:
    """What problems bring to the variance of a mean, what of it is noise, and how many they are."""
    P = len(values_PK)
    return values_PK.var(axis=0, ddof=1) / P * weight, residual_K / P * weight, P


def _error(
    between_K: FloatArray, parts: Sequence[tuple[FloatArray, FloatArray, int]], freedom: int
) -> tuple[FloatArray, FloatArray]:
    """`SeedNoise.error` of what is between runs, and of each benchmark's problems."""
    variance_K, squares_K = between_K, between_K**2 / freedom
    for problems_K, residual_K, P in parts:
        extra_K = problems_K - residual_K
        more_K = extra_K > 0
        variance_K = variance_K + np.where(more_K, extra_K, 0)
        squares_K = squares_K + np.where(
            more_K, problems_K**2 / (P - 1) + residual_K**2 / (freedom * (P - 1)), 0
        )
    freedom_K = np.divide(
        variance_K**2, squares_K, out=np.full_like(squares_K, float(freedom)), where=squares_K > 0
    )
    least = min(freedom, *(P - 1 for _, _, P in parts))
    return np.sqrt(variance_K), np.maximum(freedom_K, least)


def _student(
    mean_K: FloatArray, error_K: FloatArray, freedom_K: FloatArray, confidence: float
) -> FloatArray:
    """Low and high ends, within -1 and 1, and p-values, shape (3, K)."""
    reach_K = two_sided_reach(1 - confidence, freedom_K) * error_K
    ends_2K = np.clip([mean_K - reach_K, mean_K + reach_K], -1, 1)
    return np.vstack([ends_2K, two_sided_p(mean_K / error_K, freedom_K)])


def by_run(runs: Sequence[Run], ids: Sequence[str], ks: Sequence[int]) -> FloatArray:
    """pass@k of the problems `ids` in each run, its evaluation seeds averaged, shape (T, P, K)."""
    return np.stack([pass_matrix([seed.ordered(ids) for seed in run], ks) for run in runs])


def between_runs(sides: Sequence[FloatArray]) -> FloatArray:
    """The variance between runs' means, shape (T, K) for each side, pooled over the sides."""
    squares_K = sum(((side_TK - side_TK.mean(axis=0)) ** 2).sum(axis=0) for side_TK in sides)
    return np.asarray(squares_K) / sum(len(side_TK) - 1 for side_TK in sides)


def residual(sides: Sequence[FloatArray]) -> FloatArray:
    """The variance of a problem's value in one run around the run's and the problem's mean, pooled.

    Each side has the shape (T, P, K). 0 where every side has one run, or one problem.
    """
    squares_K, freedom = np.zeros(sides[0].shape[2]), 0
    for side_TPK in sides:
        T, P, _ = side_TPK.shape
        rest_TPK = side_TPK - side_TPK.mean(axis=1, keepdims=True)
        rest_TPK -= rest_TPK.mean(axis=0)
        squares_K += (rest_TPK**2).sum(axis=(0, 1))
        freedom += (T - 1) * (P - 1)
    return squares_K / max(freedom, 1)
