"""Models that are indistinguishable from the best of several, or from the Pareto front."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from sage_cli.metrics.counts import BoolArray, FloatArray
from sage_cli.metrics.distributions import two_sided_p
from sage_cli.metrics.objective import ObjectiveValues


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
    """Compare every model with the one that looks best, on the same problems.

    The model that looks best was lucky among all pairs: p-values are multiplied by the number of
    pairs (Bonferroni), so that a model as good as all others is distinguished from any with
    probability 1 - `confidence` at most.
    """
    best = int(np.argmax([runs_TP.mean() for runs_TP in values.models]))
    better_MM, error_MM = _compared(values, confidence)
    known_M = error_MM[best][error_MM[best] > 0]
    error = float(np.median(known_M)) if known_M.size else np.nan
    return Ranking(best, _places(~better_MM[best]), error, confidence)


def pareto_front(objectives: Sequence[ObjectiveValues], confidence: float = 0.95) -> Front:
    """The models that no other beats in all objectives, and those indistinguishable from them.

    A model is distinguished where one of the front is significantly better in every objective;
    each of those comparisons holds at `confidence` over all pairs, hence all of them together do.
    """
    means_MO = np.array([[runs_TP.mean() for runs_TP in values.models] for values in objectives]).T
    front = non_dominated(means_MO)
    better_MM = np.logical_and.reduce([_compared(values, confidence)[0] for values in objectives])
    return Front(front, _places(~better_MM[list(front)].any(axis=0)))


def non_dominated(values_MO: FloatArray) -> tuple[int, ...]:
    """Places of the models that no other matches in all objectives and beats in one."""
    no_worse_MM = (values_MO[:, None] >= values_MO[None]).all(axis=2)
    better_MM = (values_MO[:, None] > values_MO[None]).any(axis=2)
    return _places(~(no_worse_MM & better_MM).any(axis=0))


def _places(true_M: Any) -> tuple[int, ...]:
    return tuple(map(int, np.flatnonzero(true_M)))


def _compared(values: ObjectiveValues, confidence: float) -> tuple[BoolArray, FloatArray]:
    """True where a model (row) is significantly better than another, and the errors, (M, M) each.

    Paired by problem, Student's t; where models have several runs, with the noise of seeds pooled
    over all models. Without an error there is no evidence.
    """
    means_MP = np.stack([runs_TP.mean(axis=0) for runs_TP in values.models])
    runs_M = np.array([len(runs_TP) for runs_TP in values.models])
    (M, P), noise = means_MP.shape, values.noise
    better_MM, error_MM = np.zeros((M, M), dtype=bool), np.full((M, M), np.nan)
    if P < 2:
        return better_MM, error_MM
    for place in range(M):
        gap_PM = (means_MP[place] - means_MP).T
        error_M, freedom_M = gap_PM.std(axis=0, ddof=1) / np.sqrt(P), np.full(M, P - 1.0)
        if noise is not None:
            for other, share in enumerate(1 / runs_M[place] + 1 / runs_M):
                error_1, freedom_1 = noise.error(gap_PM[:, [other]], share)
                error_M[other], freedom_M[other] = error_1[0], freedom_1[0]
            error_M[place] = 0.0  # the same runs
        gap_M, known_M = gap_PM.mean(axis=0), error_M > 0
        p_M = np.ones(M)
        p_M[known_M] = two_sided_p(gap_M[known_M] / error_M[known_M], freedom_M[known_M])
        better_MM[place] = (p_M * M * (M - 1) / 2 <= 1 - confidence) & (gap_M > 0)
        error_MM[place] = error_M
    return better_MM, error_MM
