"""The uncertainty of a sweep's values: intervals, rankings, and the Pareto front."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from sage_cli.metrics.comparisons.objective import (
    Measured,
    objective_intervals,
    objective_values,
)
from sage_cli.metrics.comparisons.ranking import Front, Ranking, non_dominated, pareto_front, rank
from sage_cli.metrics.comparisons.winner import Winner, winner
from sage_cli.metrics.counts import FloatArray
from sage_cli.metrics.intervals.interval import Resampling
from sage_cli.reports.sweeps.data import Findings, SweepTrial
from sage_cli.settings.objective import Objective


def findings(
    objectives: Sequence[Objective],
    trials: Sequence[SweepTrial],
    base: SweepTrial | None = None,
    confidence: float = 0.95,
) -> Findings:
    """Return intervals, rankings and front of the measured trials; without counts the front."""
    places = [p for p, trial in enumerate(trials) if trial.state == "done" and trial.values]
    counts = [one for place in places if (one := trials[place].counts)]
    if not places or len(counts) < len(places):
        return Findings(confidence, front=_front_of_means(objectives, trials, places))
    values = [objective_values(objective, counts) for objective in objectives]
    ends = zip(*(objective_intervals(one, Resampling(confidence)) for one in values), strict=True)
    front = pareto_front(values, confidence) if len(objectives) > 1 else None
    return Findings(
        confidence,
        dict(zip(places, ends, strict=True)),
        _base_intervals(objectives, base, confidence),
        {
            objective.name: _ranking_at(places, rank(one, confidence))
            for objective, one in zip(objectives, values, strict=True)
        },
        front and Front(_at(places, front.best), _at(places, front.indistinguishable)),
        {
            objective.name: _winner_at(
                places, winner(one, base_values(objective, base, counts[0]), confidence)
            )
            for objective, one in zip(objectives, values, strict=True)
        },
    )


def _base_intervals(
    objectives: Sequence[Objective], base: SweepTrial | None, confidence: float
) -> tuple[tuple[float, float], ...] | None:
    if base is None or not base.counts:
        return None
    values = (objective_values(objective, [base.counts]) for objective in objectives)
    return tuple(objective_intervals(one, Resampling(confidence))[0] for one in values)


def base_values(
    objective: Objective, base: SweepTrial | None, first: Measured
) -> FloatArray | None:
    """Return the base's value of each problem, in the order of the trial `first`."""
    if base is None or not base.counts:
        return None
    _, own_IP = objective_values(objective, [first, base.counts]).models
    values_P: FloatArray = own_IP.mean(axis=0)
    return values_P


def _front_of_means(
    objectives: Sequence[Objective], trials: Sequence[SweepTrial], places: Sequence[int]
) -> Front | None:
    """Return the front of the values, whose noise is unknown."""
    if len(objectives) < 2 or not places:
        return None
    best = _at(places, non_dominated(np.array([trials[place].values for place in places])))
    return Front(best, best)


def _ranking_at(places: Sequence[int], ranking: Ranking) -> Ranking:
    return replace(
        ranking, best=places[ranking.best], indistinguishable=_at(places, ranking.indistinguishable)
    )


def _winner_at(places: Sequence[int], one: Winner) -> Winner:
    second = None if one.second is None else places[one.second]
    return replace(one, best=places[one.best], second=second)


def _at(places: Sequence[int], chosen: Sequence[int]) -> tuple[int, ...]:
    return tuple(places[one] for one in chosen)
