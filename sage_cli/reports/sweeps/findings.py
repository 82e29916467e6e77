"""The uncertainty of a sweep's values, and the effects of its parameters on them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import fields, replace
from math import log

import numpy as np

from sage_cli.metrics.comparisons.objective import (
    Measured,
    objective_intervals,
    objective_values,
)
from sage_cli.metrics.comparisons.ranking import Front, Ranking, non_dominated, pareto_front, rank
from sage_cli.metrics.comparisons.winner import Winner, winner
from sage_cli.metrics.counts import FloatArray
from sage_cli.metrics.importance import (
    Effect,
    category_column,
    effects,
    numeric_column,
)
from sage_cli.metrics.intervals.interval import Resampling
from sage_cli.reports.sweeps.data import Axis, CountedTrial, SweepResult, SweepTrial
from sage_cli.settings.objective import Objective

ABSENT = "without"
"""The category of trials that do not have a parameter."""


def sweep_result(
    axes: Sequence[Axis],
    objectives: Sequence[Objective],
    trials: Sequence[SweepTrial],
    base: SweepTrial | None = None,
    confidence: float = 0.95,
) -> SweepResult:
    """Return the results with intervals, rankings and front; of trials without counts the front."""
    names = tuple(objective.name for objective in objectives)
    result = SweepResult(
        tuple(axes),
        names,
        confidence,
        base and _plain(base, _base_intervals(objectives, base, confidence)),
        tuple(map(_plain, trials)),
        importances=parameter_effects(axes, trials, names),
    )
    places = list(result.done)
    fewest = min((len(trials[place].runs) for place in places), default=0)
    result = replace(result, about="methods" if fewest > 1 else "models")
    counts = [one for place in places if (one := _counts(trials[place]))]
    if not places or len(counts) < len(places):
        return replace(result, front=_front_of_means(result))
    values = {one.name: objective_values(one, counts) for one in objectives}
    ends = {name: objective_intervals(one, Resampling(confidence)) for name, one in values.items()}
    by_place = {
        place: {name: of[row] for name, of in ends.items()} for row, place in enumerate(places)
    }
    front = pareto_front(list(values.values()), confidence) if len(objectives) > 1 else None
    return replace(
        result,
        trials=tuple(
            replace(one, intervals=by_place.get(place)) for place, one in enumerate(result.trials)
        ),
        rankings={name: _ranking_at(places, rank(one, confidence)) for name, one in values.items()},
        front=front and Front(_at(places, front.best), _at(places, front.indistinguishable)),
        winners={
            one.name: _winner_at(
                places, winner(values[one.name], base_values(one, base, counts[0]), confidence)
            )
            for one in objectives
        },
    )


def _plain(
    trial: SweepTrial, intervals: Mapping[str, tuple[float, float]] | None = None
) -> SweepTrial:
    """Return a trial without its counts."""
    plain = {one.name: getattr(trial, one.name) for one in fields(SweepTrial)}
    return SweepTrial(**{**plain, "intervals": intervals})


def _counts(trial: SweepTrial) -> Measured | None:
    return trial.counts if isinstance(trial, CountedTrial) else None


def _base_intervals(
    objectives: Sequence[Objective], base: SweepTrial, confidence: float
) -> dict[str, tuple[float, float]] | None:
    if not (counts := _counts(base)):
        return None
    values = {one.name: objective_values(one, [counts]) for one in objectives}
    return {
        name: objective_intervals(one, Resampling(confidence))[0] for name, one in values.items()
    }


def base_values(
    objective: Objective, base: SweepTrial | None, first: Measured
) -> FloatArray | None:
    """Return the base's value of each problem, in the order of the trial `first`."""
    if base is None or not (counts := _counts(base)):
        return None
    _, own_IP = objective_values(objective, [first, counts]).models
    values_P: FloatArray = own_IP.mean(axis=0)
    return values_P


def _front_of_means(result: SweepResult) -> Front | None:
    """Return the front of the values, whose noise is unknown."""
    if len(result.objectives) < 2 or not result.done:
        return None
    value_OM = [[*result.value_at(name).values()] for name in result.objectives]
    best = _at(list(result.done), non_dominated(np.array(value_OM).T))
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


def parameter_effects(
    axes: Sequence[Axis], trials: Sequence[SweepTrial], objectives: Sequence[str]
) -> dict[str, dict[str, Effect]]:
    """Return by objective the effect of each parameter, by short name, on the measured trials.

    An objective is left out if the trials are too few or their values equal.
    """
    done = [one for one in trials if one.state == "done" and one.values is not None]
    columns = {axis.name: _column(axis, done) for axis in axes}
    found = {}
    for objective in objectives:
        value_M = np.array([trial.values[objective] for trial in done if trial.values is not None])
        finite_M = np.isfinite(value_M)
        varied = {name: column_MA[finite_M] for name, column_MA in columns.items()}
        if seen := effects(varied, value_M[finite_M]):
            found[objective] = seen
    return found


def _column(axis: Axis, trials: Sequence[SweepTrial]) -> FloatArray:
    """Return a parameter's columns: a number's line and square, else indicators."""
    values = [trial.settings.get(axis.key, ABSENT) for trial in trials]
    if not axis.is_number or ABSENT in values:
        return category_column(values)
    numbers = [float(value) for value in values]
    return numeric_column([log(one) for one in numbers] if axis.log else numbers)
