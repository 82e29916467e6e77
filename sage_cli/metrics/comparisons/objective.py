"""A sweep's objective, problem by problem: the basis of its interval and its ranking."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from sage_cli.metrics.comparisons.seed_noise import SeedNoise
from sage_cli.metrics.counts import Counts, FloatArray
from sage_cli.metrics.intervals.bands import pass_matrix
from sage_cli.metrics.intervals.distributions import two_sided_reach
from sage_cli.metrics.intervals.interval import USUAL, Resampling
from sage_cli.metrics.intervals.resampling import gaffke
from sage_cli.settings.objective import Objective

Measured = Sequence[Mapping[str, Counts]]
"""A model's measurements: for each training seed, benchmark -> counts."""


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


def objective_values(objective: Objective, models: Sequence[Measured]) -> ObjectiveValues:
    """`objective` of `models`; MetricError unless all were measured on the same problems."""
    first = models[0][0]
    problems = {name: len(counts) for name, counts in first.items()}
    share = {name: sum(problems.values()) / (len(problems) * P) for name, P in problems.items()}

    def of(run: Mapping[str, Counts]) -> FloatArray:
        values = (
            share[name] * by_problem(objective, run[name].ordered(counts.problem_ids))
            for name, counts in first.items()
        )
        return np.concatenate(list(values))

    return ObjectiveValues(
        tuple(np.stack([of(run) for run in model]) for model in models),
        float(sum(objective.weights.values()) * max(share.values())),
    )


def objective_intervals(
    values: ObjectiveValues, how: Resampling = USUAL
) -> tuple[tuple[float, float], ...]:
    """For each model an interval of the result of other problems, and other seeds.

    Where some model has several runs: Student's t, with the variance between runs pooled over all
    models (`SeedNoise.error`). Else Gaffke's bounds, about these very models. NaN for one
    problem.
    """
    top, noise = values.highest, values.noise
    means_ZP = np.stack([runs_IP.mean(axis=0) for runs_IP in values.models])
    if noise is None or means_ZP.shape[1] < 2:
        band = gaffke(means_ZP.T, (0.0, top), how)
        return tuple(zip(map(float, band.low_K), map(float, band.high_K), strict=True))
    ends = []
    for mean_P, runs_IP in zip(means_ZP, values.models, strict=True):
        error_1, freedom_1 = noise.error(mean_P[:, None], 1 / len(runs_IP))
        reach = float((two_sided_reach(1 - how.confidence, freedom_1) * error_1)[0])
        mean = float(mean_P.mean())
        ends.append((max(mean - reach, 0.0), min(mean + reach, top)))
    return tuple(ends)
