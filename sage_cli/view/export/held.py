"""What an export holds: the answers about some runs, within a bound on their size."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import combinations
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import numpy as np

from sage_cli.errors import SageError
from sage_cli.view.api import Api
from sage_cli.view.export.page_file import Export, HeldPolicy, in_script
from sage_cli.view.stored.columns import Columns, Filters
from sage_cli.view.stored.policies import Measured
from sage_cli.view.topics.passk import DifferenceView, difference_view
from sage_cli.view.topics.samples import Place, SampleRow, rows_of

MOST_POLICIES, MOST_PAIRS = 24, 24
SHOWN_CHARACTERS = 4_000


@dataclass(frozen=True)
class Selection:
    """The runs, sweeps and suites of an export, and where its page begins.

    `answers` are further ones by address, which are always held.
    """

    runs: Sequence[str]
    sweeps: Sequence[str] = ()
    suites: Sequence[str] = ()
    begin: str = "#/runs"
    answers: Mapping[str, Any] = field(default_factory=dict)


@dataclass
class _Held:
    """An export while it is gathered: `left` bytes may still be added."""

    left: int
    answers: dict[str, Any] = field(default_factory=dict)
    left_out: list[str] = field(default_factory=list)

    def add(self, api: Api, name: str, **values: str) -> bool:
        """Add an answer if it fits; else note that it was left out."""
        what = " ".join((name, *values.values()))
        try:
            answer = api.answer(name, values)
        except SageError as error:
            self.left_out.append(f"{what}: {error.cause}")
            return False
        if not self.fits(answer, what):
            return False
        query = urlencode(sorted(values.items()))
        self.answers[f"{name}?{query}" if query else name] = answer
        return True

    def fits(self, value: object, what: str) -> bool:
        """Return whether `value` fits, and take its room; else note that `what` is left out."""
        size = _bytes(value)
        if size > self.left:
            self.left_out.append(f"{what}: no room")
            return False
        self.left -= size
        return True


def _bytes(value: object) -> int:
    """Return the size of a value in the page."""
    return len(in_script(value).encode())


def contents(root: Path, selection: Selection, limit_bytes: int) -> Export:
    """Return what is stored of a selection, at most `limit_bytes` long in the page.

    Samples take what the rest leaves: as many of each problem, the first ones.
    """
    api, held = Api(root, once=True), _Held(limit_bytes)
    records = _answers(api, held, selection)
    every = [pair for id_ in selection.runs for pair in _measured(api, id_, held)]
    if len(every) > MOST_POLICIES:
        names = ", ".join(one.label for one in every[MOST_POLICIES:])
        held.left_out.append(f"samples and curves of {names}: at most {MOST_POLICIES} policies")
    shown = every[:MOST_POLICIES]
    differences = _differences(api, shown, held)
    each = held.left // max(1, len(shown))
    policies = [one for one in (_policy(api, pair, each, held) for pair in shown) if one]
    stored = sum(one["stored"] for one in policies)
    there = sum(len(one["samples"]) for one in policies)
    said = f"An export of {root.resolve()}, with {there:,} of {stored:,} samples"
    if held.left_out:
        said += f". Left out: {'; '.join(held.left_out[:5])}"
        more = len(held.left_out) - 5
        said += f"; and {more} more" if more > 0 else ""
    return {
        "begin": selection.begin,
        "said": f"{said}.",
        "left_out": held.left_out,
        "answers": held.answers,
        "records": records,
        "policies": policies,
        "differences": differences,
    }


def _answers(api: Api, held: _Held, selection: Selection) -> dict[str, Any]:
    """Add the answers that take no parameters but a name; return the records of the runs."""
    runs = api.answer("runs", {})
    wanted = set(selection.runs)
    runs["runs"] = [row for row in runs["runs"] if row["values"]["id"] in wanted]
    held.answers["runs"] = runs
    held.left -= _bytes(runs)
    sweeps, suites = api.answer("sweeps", {}), api.answer("suites", {})
    sweeps["sweeps"] = [one for one in sweeps["sweeps"] if one["name"] in selection.sweeps]
    suites["suites"] = [one for one in suites["suites"] if one["name"] in selection.suites]
    held.answers |= {"sweeps": sweeps, "suites": suites, **selection.answers}
    held.left -= _bytes(selection.answers)
    for name in selection.sweeps:
        held.add(api, "sweep", sweep=name)
    for name in selection.suites:
        held.add(api, "suite", suite=name)
    records = {}
    for id_ in selection.runs:
        if not held.add(api, "run", run=id_):
            continue
        names = held.answers[f"run?{urlencode({'run': id_})}"]["records"]
        found = api.answer("records", {"run": id_, "names": ",".join(names)})
        if held.fits(found, f"records {id_}"):
            records[id_] = found
        held.add(api, "rollouts", run=id_)
        held.add(api, "ledger", run=id_)
        if (api.root / id_ / "guide.json").is_file():
            held.add(api, "guide", run=id_)
    return records


def _measured(api: Api, id_: str, held: _Held) -> list[Measured]:
    """Return the final policy of a run on each of its benchmarks."""
    try:
        return [api.policies.measured(id_, name) for name in api.policies.benchmarks(id_)]
    except SageError as error:
        held.left_out.append(f"samples of {id_}: {error.cause}")
        return []


def _differences(api: Api, shown: Sequence[Measured], held: _Held) -> list[DifferenceView]:
    """Return the paired differences of policies on one benchmark, those to the first ones first."""
    found: list[DifferenceView] = []
    pairs = [(b, a) for a, b in combinations(shown, 2) if a.benchmark.name == b.benchmark.name]
    if len(pairs) > MOST_PAIRS:
        held.left_out.append(f"{len(pairs) - MOST_PAIRS} of {len(pairs)} paired differences")
    for a, b in pairs[:MOST_PAIRS]:
        try:
            columns = [(one, api.columns.of(one)) for one in (a, b)]
            difference = difference_view(columns[0], columns[1], None)
        except SageError:  # not measured; the page of each says so
            continue
        if held.fits(difference, f"the difference of {a.label} and {b.label}"):
            found.append(difference)
    return found


def _policy(api: Api, one: Measured, room: int, held: _Held) -> HeldPolicy | None:
    """Return a policy on a benchmark with as many samples of each problem as there is room for."""
    values = {"policies": one.label, "benchmark": one.benchmark.name}
    try:
        passk, problems = api.answer("passk", values), api.answer("problems", values)
        columns = api.columns.of(one)
    except (SageError, OSError) as error:
        held.left_out.append(f"samples of {one.label}: {error}")
        return None
    room -= _bytes([passk, problems])
    if room < 0:
        held.left_out.append(f"samples and curves of {one.label}: no room")
        return None
    return {
        "policy": one.label,
        "benchmark": one.benchmark.name,
        "passk": passk,
        "problems": problems,
        "golds": {id_: gold[:SHOWN_CHARACTERS] for id_, gold in one.benchmark.golds.items()},
        "stored": sum(len(rows) for _, rows in columns.select(Filters())),
        "longest": columns.longest,
        "samples": _samples(one, columns, room),
    }


def _samples(one: Measured, columns: Columns, room: int) -> list[SampleRow]:
    """Return the first samples of each problem, as many of each as fit."""
    places = _by_index(columns)
    if not places or room <= 0:
        return []
    first = rows_of(one.label, columns, places[0], SHOWN_CHARACTERS)
    each = max(1, _bytes(first))
    wanted = [place for of in places[: max(1, room // each)] for place in of]
    rows = rows_of(one.label, columns, sorted(wanted), SHOWN_CHARACTERS)
    order: Mapping[str, int] = {id_: i for i, id_ in enumerate(columns.problems)}
    rows.sort(key=lambda row: (order[row["problem"]], row["seed"], row["index"]))
    while rows and _bytes(rows) > room:
        rows = rows[: int(len(rows) * 0.8)]
    return rows


def _by_index(columns: Columns) -> list[list[Place]]:
    """Return the places of the first samples of all problems, of the second ones, and so on."""
    found: dict[tuple[int, int], list[Place]] = {}
    for number, rows in columns.select(Filters()):
        index = columns.sets[number].inventory.index_S[rows]
        order = np.argsort(index, kind="stable")
        for row, at in zip(rows[order].tolist(), index[order].tolist(), strict=True):
            found.setdefault((at, number), []).append((number, row))
    return [found[key] for key in sorted(found)]
