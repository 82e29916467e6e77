"""A sweep's objective, problem by problem: the basis of its interval and its ranking."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from sage_cli.metrics.counts import Counts
from sage_cli.metrics.error_sources import ErrorSources, residual
from sage_cli.metrics.estimators import BoolArray, FloatArray
from sage_cli.metrics.intervals import USUAL, Resampling, gaffke, pass_matrix, pooled_variance
from sage_cli.settings.objective import Objective

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

    @classmethod
    def seen_beside_seeds(cls, models_ZIPK: FloatArray) -> SeedNoise:
        """Of models with the same I seeds, without what a seed does to all of them.

        That is in no difference between two of the models. Taking off the mean over Z models leaves
        (Z - 1)/Z of the variance of the rest, and (Z - 1)(I - 1) degrees of freedom: the
        interaction of a two-way analysis of variance.
        """
        models, runs = models_ZIPK.shape[:2]
        rest = cls.seen(list(models_ZIPK - models_ZIPK.mean(axis=0)))
        scale = models / (models - 1)
        return cls(scale * rest.between_K, scale * rest.residual_K, (models - 1) * (runs - 1))

    def sources(self, values_PK: FloatArray, share_K: FloatArray) -> ErrorSources:
        """Return the sources of error of the means of `values_PK`, problems crossed with runs.

        The values are models', averaged over T runs (`share_K` is 1/T), or gaps of two models
        (1/T_A + 1/T_B). Between runs: the variance of the runs' means within a model times the
        share: seeds, and the noise of sampling averaged over problems. Between problems: the
        variance of the values over P, which holds that noise once more, so the residual, the noise
        alone, is taken off; a variance that is estimated below 0 is left out.
        """
        P = len(values_PK)
        problems_K = (values_PK.var(axis=0, ddof=1) - self.residual_K * share_K) / P
        variance_SK = np.stack([self.between_K * share_K, problems_K.clip(0)])
        return ErrorSources(variance_SK, np.array([self.freedom, P - 1]))


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

    @property
    def noise_of_gaps(self) -> SeedNoise | None:
        """The noise of differences between models; None where each has one run.

        Models with equally many runs have the same seeds in the same order. What a seed does to
        all models is in no difference between them, and left out.
        """
        lengths = {len(runs_IP) for runs_IP in self.models}
        if len(lengths) > 1 or len(self.models) < 2 or lengths == {1}:
            return self.noise
        return SeedNoise.seen_beside_seeds(np.stack(self.models)[..., None])


def objective_by_problem(objective: Objective, counts: Counts) -> FloatArray:
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
            share[name] * objective_by_problem(objective, run[name].ordered(counts.problem_ids))
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

    Where some model has several runs: Howe's interval, with the variance between runs pooled over
    all models (`SeedNoise.sources`). Else Gaffke's bounds, about these very models. NaN for one
    problem.
    """
    top, noise = values.highest, values.noise
    means_ZP = np.stack([runs_IP.mean(axis=0) for runs_IP in values.models])
    if noise is None or means_ZP.shape[1] < 2:
        band = gaffke(means_ZP.T, (0.0, top), resampling)
        return tuple(zip(map(float, band.low_K), map(float, band.high_K), strict=True))
    ends = []
    for mean_P, runs_IP in zip(means_ZP, values.models, strict=True):
        sources = noise.sources(mean_P[:, None], np.array([1 / len(runs_IP)]))
        reach = float(sources.reach(1 - resampling.confidence)[0])
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
    # [i, j]: i is at least as good as j in every objective
    no_worse_ZZ = (values_ZO[:, None] >= values_ZO[None]).all(axis=2)
    better_ZZ = (values_ZO[:, None] > values_ZO[None]).any(axis=2)
    return _places(~(no_worse_ZZ & better_ZZ).any(axis=0))


def _places(true_Z: Any) -> tuple[int, ...]:
    return tuple(map(int, np.flatnonzero(true_Z)))


def _compared(values: ObjectiveValues, confidence: float) -> tuple[BoolArray, FloatArray]:
    """True where a model (row) is significantly better than another, and the errors, (Z, Z) each.

    Paired by problem, Student's t; where models have several runs, paired by seed, too, with the
    noise of seeds pooled over all models. Without an error there is no evidence.
    """
    means_ZP = np.stack([runs_IP.mean(axis=0) for runs_IP in values.models])
    runs_Z = np.array([len(runs_IP) for runs_IP in values.models])
    (Z, P), noise = means_ZP.shape, values.noise_of_gaps
    better_ZZ, error_ZZ = np.zeros((Z, Z), dtype=bool), np.full((Z, Z), np.nan)
    if P < 2 or Z < 2:
        return better_ZZ, error_ZZ
    level = (1 - confidence) / (Z * (Z - 1) / 2)
    for model in range(Z):
        gap_PZ = (means_ZP[model] - means_ZP).T
        if noise is None:
            variance_SZ, freedom_S = gap_PZ.var(axis=0, ddof=1)[None] / P, np.array([P - 1])
            sources = ErrorSources(variance_SZ, freedom_S)
        else:
            share_Z = 1 / runs_Z[model] + 1 / runs_Z
            share_Z[model] = 0.0  # the same runs
            sources = noise.sources(gap_PZ, share_Z)
        error_ZZ[model] = sources.error
        better_ZZ[model] = (gap_PZ.mean(axis=0) > sources.reach(level)) & (sources.error > 0)
    return better_ZZ, error_ZZ
