"""A sweep's results as JSON data and back, without the counts."""

from __future__ import annotations

from collections.abc import Mapping
from math import nan
from typing import Any

from typing_extensions import TypedDict

from sage_cli.metrics import About
from sage_cli.metrics.comparisons.ranking import Front, Ranking
from sage_cli.metrics.comparisons.winner import Gap, Optimism, Winner
from sage_cli.metrics.importance import Effect
from sage_cli.reports.sweeps.data import (
    Axis,
    Findings,
    LearningCurve,
    State,
    SweepResult,
    SweepTrial,
    TrialFailure,
    Value,
)


class TrialJson(TypedDict):
    """A trial: its settings, its state, and its value and interval by objective."""

    settings: dict[str, Value]
    state: State
    values: dict[str, float] | None
    intervals: dict[str, tuple[float, float]] | None
    runs: list[str]
    failure: TrialFailure | None
    pruned: str | None
    missing: str | None
    curve: LearningCurve | None


class SweepData(TypedDict):
    """The space and the results.

    `rankings`, `front` and `winners` name trials by their places, from 0.

    They are about "methods", the trials' settings, if every measured trial has several training
    seeds; else about these "models". `importances` has each parameter's effect by objective;
    `selected_on_reported` names the benchmarks that settings are selected on although they are
    also reported.
    """

    space: list[Axis]
    objectives: list[str]
    confidence: float
    base: TrialJson | None
    trials: list[TrialJson]
    about: About
    rankings: dict[str, Ranking]
    front: Front | None
    winners: dict[str, Winner]
    importances: dict[str, dict[str, Effect]]
    selected_on_reported: str | None


def to_data(result: SweepResult) -> SweepData:
    """Return everything that tables and pictures show."""
    findings = result.findings
    return {
        "space": list(result.axes),
        "objectives": list(result.objectives),
        "confidence": findings.confidence,
        "base": _trial(result, result.base, findings.base) if result.base else None,
        "trials": [
            _trial(result, trial, findings.intervals.get(place))
            for place, trial in enumerate(result.trials)
        ],
        "about": result.about,
        "rankings": dict(findings.rankings),
        "front": findings.front,
        "winners": dict(findings.winners),
        "importances": {name: dict(effects) for name, effects in result.importances.items()},
        "selected_on_reported": result.reported,
    }


def from_data(data: Mapping[str, Any]) -> SweepResult:
    """Return the results in JSON made by `to_data`; KeyError, TypeError or ValueError if not."""
    objectives, base, front = tuple(data["objectives"]), data["base"], data["front"]
    intervals = [_intervals(objectives, trial) for trial in data["trials"]]
    return SweepResult(
        tuple(
            Axis(**{**axis, "values": axis["values"] and tuple(axis["values"])})
            for axis in data["space"]
        ),
        objectives,
        tuple(_read_trial(objectives, trial) for trial in data["trials"]),
        Findings(
            data["confidence"],
            {place: ends for place, ends in enumerate(intervals) if ends},
            _intervals(objectives, base) if base else None,
            {name: _read_ranking(one) for name, one in data["rankings"].items()},
            Front(tuple(front["best"]), tuple(front["indistinguishable"])) if front else None,
            {name: _read_winner(one) for name, one in data.get("winners", {}).items()},
        ),
        _read_trial(objectives, base) if base else None,
        {
            objective: {name: Effect(**one) for name, one in by_name.items()}
            for objective, by_name in data["importances"].items()
        },
        data["selected_on_reported"],
    )


def _trial(
    result: SweepResult, trial: SweepTrial, ends: tuple[tuple[float, float], ...] | None
) -> TrialJson:
    values = trial.values
    return {
        "settings": dict(trial.settings),
        "state": trial.state,
        "values": dict(zip(result.objectives, values, strict=True)) if values else None,
        "intervals": dict(zip(result.objectives, ends, strict=True)) if ends else None,
        "runs": list(trial.runs),
        "failure": trial.failure,
        "pruned": trial.pruned,
        "missing": trial.missing,
        "curve": trial.curve,
    }


def _read_trial(objectives: tuple[str, ...], trial: Mapping[str, Any]) -> SweepTrial:
    values, failure, curve = trial["values"], trial["failure"], trial.get("curve")
    return SweepTrial(
        trial["settings"],
        trial["state"],
        tuple(map(_number, (values[name] for name in objectives))) if values else None,
        tuple(trial["runs"]),
        failure=failure and TrialFailure(failure["kind"], failure["reason"], tuple(failure["log"])),
        pruned=trial["pruned"],
        missing=trial.get("missing"),
        curve=curve and LearningCurve(curve["of"], tuple(map(_point, curve["points"]))),
    )


def _intervals(
    objectives: tuple[str, ...], trial: Mapping[str, Any]
) -> tuple[tuple[float, float], ...] | None:
    if not trial["intervals"]:
        return None
    ends = (trial["intervals"][name] for name in objectives)
    return tuple((_number(low), _number(high)) for low, high in ends)


def _read_ranking(ranking: Mapping[str, Any]) -> Ranking:
    alike, error = tuple(ranking["indistinguishable"]), _number(ranking["error"])
    return Ranking(ranking["best"], alike, error, ranking["confidence"])


def _point(point: tuple[int, float | None]) -> tuple[int, float]:
    return point[0], _number(point[1])


def _read_winner(one: Mapping[str, Any]) -> Winner:
    base, second, chosen = one["over_base"], one["over_second"], one["optimism"]
    return Winner(
        one["best"],
        one["second"],
        base and _read_gap(base),
        second and _read_gap(second),
        chosen and Optimism(chosen["estimate"], _number(chosen["least"]), chosen["most"]),
    )


def _read_gap(gap: Mapping[str, Any]) -> Gap:
    return Gap(_number(gap["value"]), _number(gap["low"]), _number(gap["high"]))


def _number(value: float | None) -> float:
    """Return NaN for null: JSON has no NaN."""
    return nan if value is None else value
