"""A sweep's objective, problem by problem: the basis of its interval and its ranking."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from sage_cli.metrics.counts import BoolArray, Counts, FloatArray
from sage_cli.metrics.error_sources import residual
from sage_cli.metrics.intervals import (
    USUAL,
    Resampling,
    gaffke,
    pass_matrix,
    pooled_variance,
    two_sided_p,
    two_sided_reach,
)
from sage_cli.settings.runs import Objective

CountsBySeed = Sequence[Mapping[str, Counts]]
"""A model's measurements: for each training seed, benchmark -> counts."""


@dataclass(frozen=True, eq=False)
class SeedNoise:
    """The differences of a model's runs: of their means, and the rest; variances of shape (K,).

    `freedom` is the number of runs beyond the first of each model.
    """

    between_K: FloatArray
    residual_K: FloatArray
    freedom: int

    @classmethod
    def seen(cls, models: Sequence[FloatArray]) -> SeedNoise:
        """Pooled over models, each of shape (I, P, K); at least one has two runs."""
        return cls(
            pooled_variance([runs_IPK.mean(axis=1) for runs_IPK in models]),
            residual(models),
            sum(len(runs_IPK) - 1 for runs_IPK in models),
        )

    def error(self, values_PK: FloatArray, share: float) -> tuple[FloatArray, FloatArray]:
        """Standard error of the mean of `values_PK`, shape (K,), and its degrees of freedom.

        The values are a model's, averaged over T runs (`share` is 1/T), or the gaps of two
        (1/T_A + 1/T_B), problems crossed with the models:

            variance = between runs + between problems - residual

        Between runs: the variance of the runs' means within a model times `share`: seeds, and
        the noise of sampling averaged over problems. Between problems: the variance of the values
        over P, which holds that noise once more, so the residual, the noise alone, is taken off.
        Never less than the variance between runs. Degrees of freedom after Satterthwaite (1946),
        https://doi.org/10.2307/3002019.
        """
        P, freedom = len(values_PK), self.freedom
        between_K = self.between_K * share
        problems_K, residual_K = values_PK.var(axis=0, ddof=1) / P, self.residual_K * share / P
        extra_K = problems_K - residual_K
        # a component that is estimated below 0 is left out, with its degrees of freedom
        extra_squares_K = problems_K**2 / (P - 1) + residual_K**2 / (freedom * (P - 1))
        variance_K = between_K + np.where(extra_K > 0, extra_K, 0)
        squares_K = between_K**2 / freedom + np.where(extra_K > 0, extra_squares_K, 0)
        # Satterthwaite: the degrees of freedom of a chi-squared distribution with the same mean and
        # variance as the sum of the components
        freedom_K = np.divide(
            variance_K**2, squares_K, out=np.full_like(squares_K, freedom), where=squares_K > 0
        )
        return np.sqrt(variance_K), np.maximum(freedom_K, min(freedom, P - 1))


@dataclass(frozen=True, eq=False)
class ObjectiveValues:
    """Every model's value of every problem in every run, shape (I, P); I may differ.

    Their mean over P is the objective: with several benchmarks, problems of the smaller ones count
    for more, and `highest` is the most that a problem can reach.
    """

    models: tuple[FloatArray, ...]
    highest: float

    @property
    def noise(self) -> SeedNoise | None:
        """The noise between runs of one model, over all models; None where each has one run."""
        if all(len(runs_IP) == 1 for runs_IP in self.models):
            return None
        return SeedNoise.seen([runs_IP[..., None] for runs_IP in self.models])


def by_problem(objective: Objective, counts: Counts) -> FloatArray:
    """Return the objective of each problem (P,), whose mean is the objective on that benchmark."""
    ks, weights_K = list(objective.weights), np.array(list(objective.weights.values()))
    values_P: FloatArray = pass_matrix(counts, ks) @ weights_K
    return values_P


def objective_values(objective: Objective, models: Sequence[CountsBySeed]) -> ObjectiveValues:
    """`objective` of `models`; MetricError unless all were measured on the same problems."""
    first = models[0][0]
    problems = {name: len(counts) for name, counts in first.items()}
    # weights under which the mean over all problems is the unweighted mean over benchmarks,
    # whatever their sizes
    share = {name: sum(problems.values()) / (len(problems) * P) for name, P in problems.items()}

    def values_of(run: Mapping[str, Counts]) -> FloatArray:
        values = (
            share[name] * by_problem(objective, run[name].ordered(counts.problem_ids))
            for name, counts in first.items()
        )
        return np.concatenate(list(values))

    return ObjectiveValues(
        tuple(np.stack([values_of(run) for run in model]) for model in models),
        float(sum(objective.weights.values()) * max(share.values())),
    )


def objective_intervals(
    values: ObjectiveValues, resampling: Resampling = USUAL
) -> tuple[tuple[float, float], ...]:
    """For each model an interval of the result of other problems, and other seeds.

    Where some model has several runs: Student's t, with the variance between runs pooled over all
    models (`SeedNoise.error`). Else Gaffke's bounds, about these very models. NaN for one
    problem.
    """
    top, noise = values.highest, values.noise
    means_ZP = np.stack([runs_IP.mean(axis=0) for runs_IP in values.models])
    if noise is None or means_ZP.shape[1] < 2:
        band = gaffke(means_ZP.T, (0.0, top), resampling)
        return tuple(zip(map(float, band.low_K), map(float, band.high_K), strict=True))
    ends = []
    for mean_P, runs_IP in zip(means_ZP, values.models, strict=True):
        error_1, freedom_1 = noise.error(mean_P[:, None], 1 / len(runs_IP))
        reach = float((two_sided_reach(1 - resampling.confidence, freedom_1) * error_1)[0])
        mean = float(mean_P.mean())
        ends.append((max(mean - reach, 0.0), min(mean + reach, top)))
    return tuple(ends)


@dataclass(frozen=True)
class Ranking:
    """The best model's place, and the places of all that may be as good, itself among them.

    `error` is the median standard error of a difference from the best, NaN where there is none.
    """

    best: int
    indistinguishable: tuple[int, ...]
    error: float
    confidence: float


@dataclass(frozen=True)
class Front:
    """Places of the models that none is better than in both objectives, and of all that may be."""

    best: tuple[int, ...]
    indistinguishable: tuple[int, ...]


def rank(values: ObjectiveValues, confidence: float = 0.95) -> Ranking:
    """Compare every model with the `leading` one, on the same problems.

    The model that looks best was lucky among all pairs: p-values are multiplied by the number of
    pairs (Bonferroni), so that a model as good as all others is distinguished from any with
    probability 1 - `confidence` at most.
    """
    best = leading(values)[0]
    better_ZZ, error_ZZ = _compared(values, confidence)
    known_Z = error_ZZ[best][error_ZZ[best] > 0]
    error = float(np.median(known_Z)) if known_Z.size else np.nan
    return Ranking(best, _places(~better_ZZ[best]), error, confidence)


def leading(values: ObjectiveValues) -> list[int]:
    """Return the models' places, the highest mean first."""
    return sorted(range(len(values.models)), key=lambda index: -float(values.models[index].mean()))


def pareto_front(objectives: Sequence[ObjectiveValues], confidence: float = 0.95) -> Front:
    """The models that no other beats in all objectives, and those indistinguishable from them.

    A model is distinguished where one of the front is significantly better in every objective;
    each of those comparisons holds at `confidence` over all pairs, hence all of them together do.
    """
    means_ZO = np.array([[runs_IP.mean() for runs_IP in values.models] for values in objectives]).T
    front = non_dominated(means_ZO)
    better_ZZ = np.logical_and.reduce([_compared(values, confidence)[0] for values in objectives])
    return Front(front, _places(~better_ZZ[list(front)].any(axis=0)))


def non_dominated(values_ZO: FloatArray) -> tuple[int, ...]:
    """Places of the models that no other matches in all objectives and beats in one."""
    # [i, j]: i is no worse than j in every objective
    no_worse_ZZ = (values_ZO[:, None] >= values_ZO[None]).all(axis=2)
    better_ZZ = (values_ZO[:, None] > values_ZO[None]).any(axis=2)
    return _places(~(no_worse_ZZ & better_ZZ).any(axis=0))


def _places(true_Z: Any) -> tuple[int, ...]:
    return tuple(map(int, np.flatnonzero(true_Z)))


def _compared(values: ObjectiveValues, confidence: float) -> tuple[BoolArray, FloatArray]:
    """True where a model (row) is significantly better than another, and the errors, (Z, Z) each.

    Paired by problem, Student's t; where models have several runs, with the noise of seeds pooled
    over all models. Without an error there is no evidence.
    """
    means_ZP = np.stack([runs_IP.mean(axis=0) for runs_IP in values.models])
    runs_Z = np.array([len(runs_IP) for runs_IP in values.models])
    (Z, P), noise = means_ZP.shape, values.noise
    better_ZZ, error_ZZ = np.zeros((Z, Z), dtype=bool), np.full((Z, Z), np.nan)
    if P < 2:
        return better_ZZ, error_ZZ
    for model in range(Z):
        gap_PZ = (means_ZP[model] - means_ZP).T
        error_Z, freedom_Z = gap_PZ.std(axis=0, ddof=1) / np.sqrt(P), np.full(Z, P - 1.0)
        if noise is not None:
            for rival, share in enumerate(1 / runs_Z[model] + 1 / runs_Z):
                error_1, freedom_1 = noise.error(gap_PZ[:, [rival]], share)
                error_Z[rival], freedom_Z[rival] = error_1[0], freedom_1[0]
            error_Z[model] = 0.0  # the same runs
        gap_Z, known_Z = gap_PZ.mean(axis=0), error_Z > 0
        p_Z = np.ones(Z)
        p_Z[known_Z] = two_sided_p(gap_Z[known_Z] / error_Z[known_Z], freedom_Z[known_Z])
        better_ZZ[model] = (p_Z * Z * (Z - 1) / 2 <= 1 - confidence) & (gap_Z > 0)
        error_ZZ[model] = error_Z
    return better_ZZ, error_ZZ
