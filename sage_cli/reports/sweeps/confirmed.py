"""The report of a confirmation: what is left of the gains of a sweep's best trials."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from typing_extensions import TypedDict

from sage_cli.metrics.comparisons.objective import ObjectiveValues, Result, objective_values
from sage_cli.metrics.comparisons.winner import Gap, gap_over, gap_over_base
from sage_cli.metrics.counts import FloatArray
from sage_cli.reports.document import Document
from sage_cli.reports.provenance import Provenance
from sage_cli.reports.sweeps.data import SweepResult, Value, describe
from sage_cli.reports.sweeps.winner import gap_measure
from sage_cli.reports.tables.table import Column, Measure, Row, Table
from sage_cli.settings.objective import Objective


@dataclass(frozen=True)
class FreshTrial:
    """A trial with fresh seeds: its `place` in the sweep's report, its runs and their counts.

    `initial` are the counts of its initial policy. `failures` say why runs have none.
    """

    place: int
    runs: tuple[str, ...]
    counts: tuple[Mapping[str, Result], ...]
    initial: Mapping[str, Result]
    failures: tuple[str, ...] = ()


class ConfirmedValue(TypedDict):
    """A trial's value and its difference from the initial policy, in the search and confirmed.

    `search_gain` is null if the search has not measured the initial policy.
    """

    search: float
    search_gain: float | None
    value: float
    gain: Gap


class ConfirmedTrial(TypedDict):
    """A trial by its number in the sweep's report, with its fresh runs; `values` by objective."""

    number: int
    settings: dict[str, Value]
    runs: list[str]
    failures: list[str]
    values: dict[str, ConfirmedValue] | None


class ConfirmedRanking(TypedDict):
    """Trials by their numbers, best first, in the search and confirmed.

    `holds` is true if the best is the same. `lead` is the difference of the search's best trial
    from the best of the others, null if there are no others.
    """

    search: list[int]
    confirmed: list[int]
    holds: bool
    lead: Gap | None


class ConfirmData(TypedDict):
    """What fresh seeds and the reported benchmarks say of the best trials of a sweep.

    `selected_on_reported` names the benchmarks on which the search selected, although they are
    reported.
    """

    sweep: str
    searched_on: list[str]
    reported_on: list[str]
    seeds: int
    confidence: float
    trials: list[ConfirmedTrial]
    rankings: dict[str, ConfirmedRanking]
    selected_on_reported: str | None


def confirmed_document(
    name: str,
    result: SweepResult,
    objectives: Sequence[Objective],
    trials: Sequence[FreshTrial],
    benchmarks: tuple[Sequence[str], Sequence[str]],
    seeds: int,
    provenance: Provenance,
    confidence: float = 0.95,
) -> Document:
    """Return the report of trials of the sweep `name`, whose own report is `result`.

    `benchmarks` are those of the search and those that are reported.
    """
    measured = [one for one in trials if one.counts]
    by_objective = {one.name: _values(one, measured) for one in objectives}
    rankings, values = {}, {}
    for objective in objectives:
        found, bases = by_objective[objective.name]
        gains = [
            gap_over_base(found, place, base_P, confidence) for place, base_P in enumerate(bases)
        ]
        values[objective.name] = [
            _value(result, objective.name, one.place, float(runs_IP.mean()), gain)
            for one, runs_IP, gain in zip(measured, found.models, gains, strict=True)
        ]
        rankings[objective.name] = _ranking(values[objective.name], measured, found, confidence)
    data: ConfirmData = {
        "sweep": name,
        "searched_on": list(benchmarks[0]),
        "reported_on": list(benchmarks[1]),
        "seeds": seeds,
        "confidence": confidence,
        "trials": [
            {
                "number": one.place + 1,
                "settings": dict(result.trials[one.place].settings),
                "runs": list(one.runs),
                "failures": list(one.failures),
                "values": {key: each[measured.index(one)] for key, each in values.items()}
                if one.counts
                else None,
            }
            for one in trials
        ],
        "rankings": rankings,
        "selected_on_reported": ", ".join(n for n in benchmarks[0] if n in benchmarks[1]) or None,
    }
    tables = tuple(_table(one.name, data, result) for one in objectives)
    return Document("confirm", f"{name} confirmed", data, provenance, tables, notes=_notes(data))


def _values(
    objective: Objective, trials: Sequence[FreshTrial]
) -> tuple[ObjectiveValues, list[FloatArray]]:
    every = [*(one.counts for one in trials), *((one.initial,) for one in trials)]
    both = objective_values(objective, every)
    models, bases = both.models[: len(trials)], both.models[len(trials) :]
    return replace(both, models=models), [base_1P[0] for base_1P in bases]


def _value(
    result: SweepResult, objective: str, place: int, value: float, gain: Gap
) -> ConfirmedValue:
    values, base = result.trials[place].values, result.base
    assert values is not None  # a trial without values is not confirmed
    search = values[objective]
    before = base.values[objective] if base is not None and base.values is not None else None
    return {
        "search": search,
        "search_gain": None if before is None else search - before,
        "value": value,
        "gain": gain,
    }


def _ranking(
    values: Sequence[ConfirmedValue],
    trials: Sequence[FreshTrial],
    found: ObjectiveValues,
    confidence: float,
) -> ConfirmedRanking:
    places = range(len(trials))
    search = sorted(places, key=lambda place: -values[place]["search"])
    again = sorted(places, key=lambda place: -values[place]["value"])
    others = [place for place in again if place != search[0]]
    return {
        "search": [trials[place].place + 1 for place in search],
        "confirmed": [trials[place].place + 1 for place in again],
        "holds": search[0] == again[0],
        "lead": gap_over(found, search[0], others[0], confidence) if others else None,
    }


def _table(objective: str, data: ConfirmData, result: SweepResult) -> Table:
    rows = []
    for one in data["trials"]:
        known = one["values"]
        said = str(one["number"]), describe(result.trials[one["number"] - 1], result.space)
        if known is None:
            rows.append(Row((*said, *[Measure(math.nan)] * 4, 0)))
            continue
        found = known[objective]
        gain, before = found["gain"], found["search_gain"]
        cells = (
            Measure(found["search"]),
            Measure(math.nan if before is None else before, signed=True),
            Measure(found["value"]),
            gap_measure(gain),
        )
        failed = len(one["failures"])
        rows.append(Row((*said, *cells, len(one["runs"]) - failed)))
    columns = (
        *map(Column, ("trial", "settings")),
        *(Column(name, "search") for name in ("value", "less initial policy")),
        *(Column(name, "confirmed") for name in ("value", "less initial policy", "seeds")),
    )
    return Table(f"{objective}: search and confirmation", columns, tuple(rows))


def _notes(data: ConfirmData) -> tuple[str, ...]:
    searched, reported = ", ".join(data["searched_on"]), ", ".join(data["reported_on"])
    notes = [
        f"search: {searched}; confirmed: {reported}, with {data['seeds']} fresh "
        f"seed{'' if data['seeds'] == 1 else 's'}; {100 * data['confidence']:g} % intervals over "
        + ("problems and seeds" if data["seeds"] > 1 else "problems, about these very runs")
    ]
    for objective, ranking in data["rankings"].items():
        first, again = ranking["search"][0], ranking["confirmed"][0]
        if (lead := ranking["lead"]) is None:  # a trial alone has no rank
            continue
        gap = gap_measure(lead)
        words = f"{objective}: the search's best, trial {first}, is "
        words += "the best again" if ranking["holds"] else f"not the best: trial {again} is"
        words += f"; less the best of the others {gap}"
        notes.append(words)
    if both := data["selected_on_reported"]:
        notes.append(
            f"the search selected on {both}, which is also reported: seeds are fresh, its problems "
            "are not, so the luck of problems is still in the confirmed gain"
        )
    for one in data["trials"]:
        notes += [f"trial {one['number']}: {why}" for why in one["failures"]]
    return tuple(notes)
