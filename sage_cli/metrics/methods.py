"""Methods compared over their training seeds: with each other, or with one fixed model."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from sage_cli.errors import MetricError
from sage_cli.metrics.bands import pass_matrix
from sage_cli.metrics.counts import Counts, FloatArray
from sage_cli.metrics.paired_difference import Difference, gap_interval
from sage_cli.metrics.student import freedom_of, two_sided_p, two_sided_reach

BoolArray = NDArray[np.bool_]
Run = Sequence[Counts]
"""One training seed: its counts, one for each evaluation seed."""

Pool = Sequence[Sequence[FloatArray]]
"""Methods whose seeds are taken to vary alike: for each benchmark its runs, shape (T, P, K)."""

LEVEL = 0.05
"""The two-sided level at which `_fixed_side` is Howe's interval."""


def method_difference(
    a_runs: Sequence[Run],
    b_runs: Sequence[Run],
    ks: Sequence[int],
    *,
    pool: Pool | None = None,
    confidence: float = 0.95,
    resamples: int = 2000,
    seed: int = 0,
) -> Difference:
    """A less B over other problems and other training seeds of the sides with several runs.

    A side with one run is a fixed model: the difference is to this model, whatever trained it.
    Student's t with the error of `error_over`; `pool` are the methods over which the seeds'
    variance is pooled (by default the two sides), each on this one benchmark. Against a fixed
    model the interval contains that of the models at hand, which is wider where few problems
    differ. Where no variance is seen, the interval of the mean gaps over problems takes its place
    (`resamples` and `seed` are for that). Raises MetricError where neither side has two runs, and
    for fewer than two problems.
    """
    if max(len(a_runs), len(b_runs)) < 2:
        raise MetricError(
            "one run of either side is a comparison of two models, not of methods",
            "name more runs as A1,A2,A3 B1,B2,B3, or compare one run with one run",
        )
    ids = a_runs[0][0].problem_ids
    if len(ids) < 2:
        raise MetricError("one problem alone says nothing about other problems")
    a_TPK, b_TPK = by_run(a_runs, ids, ks), by_run(b_runs, ids, ks)
    gap_PK = a_TPK.mean(axis=0) - b_TPK.mean(axis=0)
    mean_K = gap_PK.mean(axis=0)
    error_K, freedom_K = error_over([(a_TPK, b_TPK)], pool)
    ends_3K = np.empty((3, len(mean_K)))
    seen_K = error_K > 0
    ends_3K[:, seen_K] = _student(mean_K[seen_K], error_K[seen_K], freedom_K[seen_K], confidence)
    wanted_K = ~seen_K | (min(len(a_runs), len(b_runs)) < 2)
    if wanted_K.any():
        at_hand = gap_interval(
            gap_PK[:, wanted_K], confidence=confidence, resamples=resamples, seed=seed
        )
        models_3K = np.stack([at_hand.low_K, at_hand.high_K, at_hand.p_K])
        ends_3K[:, wanted_K] = _wider(ends_3K[:, wanted_K], models_3K, seen_K[wanted_K])
    low_K, high_K, p_K = ends_3K
    return Difference(
        tuple(map(int, ks)), mean_K, low_K, high_K, p_K, confidence, len(gap_PK),
        (len(a_runs), len(b_runs)),
    )  # fmt: skip


def error_of(a_TPK: FloatArray, b_TPK: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Standard error of A's mean less B's, shape (K,), and its degrees of freedom."""
    return error_over([(a_TPK, b_TPK)])


def error_over(
    benchmarks: Sequence[tuple[FloatArray, FloatArray]], pool: Pool | None = None
) -> tuple[FloatArray, FloatArray]:
    """The same of the unweighted mean over benchmarks, on which both methods have the same runs.

    Runs differ by their means over all benchmarks; each benchmark adds what its problems bring.
    The seeds' variance is pooled over the methods of `pool`, by default over both sides; the more
    methods, the more degrees of freedom. It assumes that seeds vary alike under all of them.

    A side with one run, as a base, is fixed. With the model y[i, p] = mean + seed[i] + problem[p]
    + noise[i, p] for A's T runs on P problems, and y[p] = mean + problem[p] + noise[p] for B:

        the mean gap has the variance  s_seed / T + s_noise / (T P) + (s_gap + s_noise_B) / P,

    where s_gap is the variance of the problems' true differences: what A and B share of a problem
    cancels. A's runs' means have the variance s_seed + s_noise / P (`between_runs`), the problems'
    mean gaps s_gap + s_noise / T + s_noise_B, and the residual of A's runs is s_noise. Hence

        variance = between runs / T + between problems / P - residual / (T P)

    is unbiased. B's noise is in the problems' gaps alone, and nothing of B is between runs: it is
    `SeedNoise.error` with the share 1/T instead of 1/T_A + 1/T_B.
    """
    sides = list(zip(*benchmarks, strict=True))
    seen = [method for method in (pool or sides) if len(method[0]) > 1]
    share = sum(1 / len(side[0]) for side in sides if len(side[0]) > 1)
    freedom = sum(len(method[0]) - 1 for method in seen)
    means = [np.mean([runs_TPK.mean(axis=1) for runs_TPK in method], axis=0) for method in seen]
    weight = 1 / len(benchmarks) ** 2
    parts = []
    for (a_TPK, b_TPK), *methods in zip(benchmarks, *seen, strict=True):
        gap_PK = a_TPK.mean(axis=0) - b_TPK.mean(axis=0)
        parts.append(_problems(gap_PK, residual(methods) * share, weight))
    fixed = any(len(side[0]) < 2 for side in sides)
    return (_fixed_side if fixed else _error)(between_runs(means) * share, parts, freedom)


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


def _fixed_side(
    between_K: FloatArray, parts: Sequence[tuple[FloatArray, FloatArray, int]], freedom: int
) -> tuple[FloatArray, FloatArray]:
    """`_error` where one side is fixed: the same variance, and Howe's interval.

    Few runs of a single side may carry nearly all of the variance. Satterthwaite's degrees of
    freedom are then too many exactly where these runs happen to be alike: the interval covers .87
    with two runs and .91 with three. Howe (1974, J. Am. Stat. Assoc. 69, 789) adds the squares of
    the sources' own half-widths, each with its own t, which covers at least its level. The degrees
    of freedom are those that give Student's interval this width at `LEVEL`.
    """
    sources = [(between_K, freedom)]
    sources += [(np.maximum(problems_K - rest_K, 0), P - 1) for problems_K, rest_K, P in parts]
    variance_K = np.sum([one_K for one_K, _ in sources], axis=0)
    squares_K = np.sum(
        [one_K * two_sided_reach(LEVEL, np.array(float(free))) ** 2 for one_K, free in sources],
        axis=0,
    )
    reach_K = np.sqrt(
        np.divide(squares_K, variance_K, out=np.full_like(squares_K, 2.0), where=variance_K > 0)
    )
    return np.sqrt(variance_K), freedom_of(LEVEL, reach_K)


def _student(
    mean_K: FloatArray, error_K: FloatArray, freedom_K: FloatArray, confidence: float
) -> FloatArray:
    """Low and high ends, within -1 and 1, and p-values, shape (3, K)."""
    reach_K = two_sided_reach(1 - confidence, freedom_K) * error_K
    ends_2K = np.clip([mean_K - reach_K, mean_K + reach_K], -1, 1)
    return np.vstack([ends_2K, two_sided_p(mean_K / error_K, freedom_K)])


def _wider(student_3K: FloatArray, models_3K: FloatArray, seen_K: BoolArray) -> FloatArray:
    """Low and high ends and p that hold both; the models' alone where no error was `seen`."""
    low_K, high_K, p_K = student_3K
    own_low_K, own_high_K, own_p_K = models_3K
    both_3K = np.stack(
        [np.minimum(low_K, own_low_K), np.maximum(high_K, own_high_K), np.maximum(p_K, own_p_K)]
    )
    return np.where(seen_K, both_3K, models_3K)


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
