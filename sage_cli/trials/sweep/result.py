"""The result of a sweep: its trials with their uncertainty, as a report shows and stores them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields, is_dataclass, replace
from itertools import repeat
from math import nan
from types import NoneType
from typing import Any, Literal, get_args, get_origin, get_type_hints

import numpy as np

from sage_cli.metrics import About, Counts
from sage_cli.metrics.intervals import Resampling
from sage_cli.metrics.ranking import (
    CountsBySeed,
    Front,
    Ranking,
    non_dominated,
    objective_intervals,
    objective_values,
    pareto_front,
    rank,
)
from sage_cli.settings.objective import Objective

SettingValue = float | int | str | bool
ShownState = Literal["done", "missing", "failed", "pruned", "running", "left"]
_SYMBOLS = {"tau": "τ", "rho": "ρ"}
ADDED = {"whole_k"}
"""Parts that older reports lack."""


@dataclass(frozen=True)
class Axis:
    """A parameter: its short name, its setting, and its `values` or the ends of its range."""

    name: str
    key: str
    values: tuple[SettingValue, ...] | None = None
    low: float | None = None
    high: float | None = None
    log: bool = False

    @property
    def label(self) -> str:
        """Return its name in pictures."""
        return _SYMBOLS.get(self.name, self.name)

    @property
    def is_number(self) -> bool:
        """Return True if its values are numbers."""
        return self.values is None or all(
            isinstance(value, int | float) and not isinstance(value, bool) for value in self.values
        )


@dataclass(frozen=True)
class TrialFailure:
    """A failure: its class, such as `out of memory`, its reason, the last lines of its log."""

    kind: str
    reason: str
    log: tuple[str, ...] = ()


@dataclass(frozen=True)
class LearningCurve:
    """A record of a trial's first run over steps, `of` its name, as (step, value)."""

    of: str
    points: tuple[tuple[int, float], ...]


@dataclass(frozen=True)
class SweepTrial:
    """A trial: its settings, its state, and its runs, one for each seed.

    `values` are the means over seeds by objective, `intervals` their confidence intervals.
    `missing` says what the store has lost of a trial that was done, `pruned` by what and why a
    trial was pruned.
    """

    settings: Mapping[str, SettingValue]
    state: ShownState
    values: Mapping[str, float] | None = None
    intervals: Mapping[str, tuple[float, float]] | None = None
    runs: tuple[str, ...] = ()
    failure: TrialFailure | None = None
    pruned: str | None = None
    missing: str | None = None
    curve: LearningCurve | None = None


@dataclass(frozen=True)
class CountedTrial(SweepTrial):
    """A trial with the counts of each seed by benchmark, which tell its uncertainty."""

    counts: tuple[Mapping[str, Counts], ...] | None = None


@dataclass(frozen=True)
class SweepResult:
    """The space and the results.

    `rankings` and `front` name trials by their places, from 0.

    They are about "methods", the trials' settings, if every measured trial has several training
    seeds; else about these "models". `selected_on_reported` names the benchmarks that settings are
    selected on although they are also reported.
    """

    space: tuple[Axis, ...]
    objectives: tuple[str, ...]
    confidence: float
    base: SweepTrial | None
    trials: tuple[SweepTrial, ...]
    about: About = "models"
    rankings: Mapping[str, Ranking] = field(default_factory=dict)
    front: Front | None = None
    selected_on_reported: str | None = None
    whole_k: int | None = None
    """A k of an objective that is all samples of a problem."""

    @property
    def done(self) -> dict[int, SweepTrial]:
        """Return the measured trials by place."""
        return {
            index: trial
            for index, trial in enumerate(self.trials)
            if trial.values is not None and trial.state == "done"
        }

    def value_at(self, objective: str) -> dict[int, float]:
        """Return the measured trials' values of an objective by place."""
        return {
            index: trial.values[objective] for index, trial in self.done.items() if trial.values
        }

    def ranked(self, objective: str) -> list[int]:
        """Return the places of the measured trials, best first."""
        value_at = self.value_at(objective)
        return sorted(value_at, key=lambda index: -value_at[index])

    def best(self, objective: str) -> int | None:
        """Return the place of the best trial; None if no trial is measured."""
        return next(iter(self.ranked(objective)), None)

    def indistinguishable(self, objective: str) -> frozenset[int]:
        """Return the places of the trials that may equal the best; empty if that is unknown."""
        ranking = self.rankings.get(objective)
        return frozenset(ranking.indistinguishable) if ranking else frozenset()


def from_data(data: Mapping[str, Any]) -> SweepResult:
    """Return the results in a report's JSON.

    Raises KeyError for what it lacks, TypeError or AttributeError for what is not a result.
    """
    result: SweepResult = _read(SweepResult, data)
    for trial in (result.base, *result.trials):
        for measured in (trial and trial.values, trial and trial.intervals):
            if measured and (lacking := set(result.objectives) - set(measured)):
                raise KeyError(min(lacking))
    return result


def _read(kind: Any, given: Any) -> Any:
    """Return JSON as a value of a type: JSON has null for NaN, and lists for tuples."""
    outer, inner = get_origin(kind), get_args(kind)
    if NoneType in inner:
        return None if given is None else _read(inner[0], given)
    if kind is float:
        return nan if given is None else given
    if outer is tuple:
        kinds = repeat(inner[0]) if inner[-1] is ... else inner
        return tuple(map(_read, kinds, given))
    if outer is Mapping:
        return {key: _read(inner[1], value) for key, value in given.items()}
    if isinstance(kind, type) and is_dataclass(kind):
        hints = get_type_hints(kind)
        names = [name for name in hints if name in given or name not in ADDED]
        return kind(**{name: _read(hints[name], given[name]) for name in names})
    return given


def sweep_result(
    axes: Sequence[Axis],
    objectives: Sequence[Objective],
    trials: Sequence[SweepTrial],
    base: SweepTrial | None = None,
    selected_on_reported: str | None = None,
    confidence: float = 0.95,
) -> SweepResult:
    """Return the results with intervals, rankings and front; of trials without counts the front.

    `base` is the initial policy, measured on the same problems. `selected_on_reported` names
    benchmarks that are also reported.
    """
    names = tuple(objective.name for objective in objectives)
    of_base = base and _counts(base)
    intervals = _intervals(objectives, [of_base], confidence)[0] if of_base else None
    result = SweepResult(
        tuple(axes),
        names,
        confidence,
        base and _plain(base, intervals),
        tuple(map(_plain, trials)),
        selected_on_reported=selected_on_reported,
    )
    places = list(result.done)
    fewest = min((len(trials[index].runs) for index in places), default=0)
    result = replace(result, about="methods" if fewest > 1 else "models")
    counts = [measured for index in places if (measured := _counts(trials[index]))]
    if not places or len(counts) < len(places):
        return replace(result, front=_front_of_means(result))
    n = min(int(c.n_P.min()) for runs in counts for run in runs for c in run.values())
    whole = n if n > 1 and any(n in objective.weights for objective in objectives) else None
    result = replace(result, whole_k=whole)
    values = {objective.name: objective_values(objective, counts) for objective in objectives}
    by_place = dict(zip(places, _intervals(objectives, counts, confidence), strict=True))
    front = pareto_front(list(values.values()), confidence) if len(objectives) > 1 else None
    return replace(
        result,
        trials=tuple(
            replace(trial, intervals=by_place.get(index))
            for index, trial in enumerate(result.trials)
        ),
        rankings={
            name: _ranking_at(places, rank(by_model, confidence))
            for name, by_model in values.items()
        },
        front=front and Front(_at(places, front.best), _at(places, front.indistinguishable)),
    )


def _plain(
    trial: SweepTrial, intervals: Mapping[str, tuple[float, float]] | None = None
) -> SweepTrial:
    """Return a trial without its counts."""
    plain = {column.name: getattr(trial, column.name) for column in fields(SweepTrial)}
    return SweepTrial(**{**plain, "intervals": intervals})


def _counts(trial: SweepTrial) -> CountsBySeed | None:
    return trial.counts if isinstance(trial, CountedTrial) else None


def _intervals(
    objectives: Sequence[Objective], counts: Sequence[CountsBySeed], confidence: float
) -> list[dict[str, tuple[float, float]]]:
    """Return the intervals of each trial by objective."""
    ends = {
        objective.name: objective_intervals(
            objective_values(objective, counts), Resampling(confidence)
        )
        for objective in objectives
    }
    return [{name: values[row] for name, values in ends.items()} for row in range(len(counts))]


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


def _at(places: Sequence[int], chosen: Sequence[int]) -> tuple[int, ...]:
    return tuple(places[index] for index in chosen)
