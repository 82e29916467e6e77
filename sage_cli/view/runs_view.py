"""The table of runs, and a run: its settings, records, rollouts and ledger."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain
from typing import Any

from typing_extensions import TypedDict

from sage_cli.config.schema import settings
from sage_cli.errors import SageError
from sage_cli.json_value import is_number
from sage_cli.store.run import SEALED, Run
from sage_cli.store.run_facts import ABOUT, RunFacts, replicated, speed_figures, telling_apart
from sage_cli.view.samples_view import AskedProblem, asked_problems
from sage_cli.view.stored_runs import LineStyle, Policies, RunsRead, look_of, looks_of, policies_of

FIRST, LAST = ("id", "status", "step", "of"), ("reward", "started", "seconds", "kind", "parent")
"""Columns that are always sent, before and after the others: the page reads some of them."""
_SHOWN_CHARACTERS = 20_000


class RunRow(TypedDict):
    """A run of the table: a value for each of the columns, null for none.

    Runs of one `group` differ in their seeds alone; the group with the latest run is the last.
    """

    look: LineStyle
    group: int
    values: dict[str, Any]


class RunsView(TypedDict):
    """Runs, oldest first; `known` names every column that may be asked for."""

    root: str
    columns: list[str]
    known: list[str]
    runs: list[RunRow]


def runs_view(
    runs: RunsRead, asked: Sequence[str], facts_of_runs: Sequence[RunFacts] | None = None
) -> RunsView:
    """Return every run with the usual columns, `asked`, settings that differ, and pass@k.

    A name that no run knows is a column of nulls. `facts_of_runs` were read by `runs`, where they
    have been already.
    """
    facts_of_runs = runs.all(asked) if facts_of_runs is None else facts_of_runs
    looks = looks_of(facts_of_runs)
    apart, passk = telling_apart(facts_of_runs), _passk_columns(facts_of_runs)
    columns = list(dict.fromkeys([*FIRST, *asked, *apart, *passk, *LAST]))
    number_of = {facts.run.id: number for number, facts in enumerate(facts_of_runs)}
    groups = sorted(replicated(facts_of_runs), key=lambda group: number_of[group[-1].run.id])
    group_of = {run.run.id: number for number, group in enumerate(groups) for run in group}
    return {
        "root": str(runs.root.resolve()),
        "columns": columns,
        "known": [*ABOUT, *sorted(runs.figures), *sorted(settings())],
        "runs": [
            {
                "look": look_of(facts.run.id, looks),
                "group": group_of[facts.run.id],
                "values": {name: facts.value(name) for name in columns},
            }
            for facts in facts_of_runs
        ],
    }


def _passk_columns(runs: Sequence[RunFacts]) -> list[str]:
    """Return pass@1 and pass@k at the largest k of each benchmark, as figures are named."""
    largest: dict[str, int] = {}
    for name in dict.fromkeys(chain.from_iterable(facts.figures for facts in runs)):
        k, on, benchmark = name.partition(" on ")
        if on and k.startswith("pass@") and k[5:].isdigit():
            largest[benchmark] = max(largest.get(benchmark, 1), int(k[5:]))
    return [
        f"pass@{k} on {benchmark}"
        for benchmark, most in largest.items()
        for k in dict.fromkeys((1, most))
    ]


class RunView(TypedDict):
    """A run: its manifest, its settings, those of its method alone, its figures.

    `records` names the figures of metrics.jsonl. `policies` are the policies that can be measured:
    the run's checkpoints and its end. `benchmarks` are those that it was measured on.
    """

    id: str
    look: LineStyle
    manifest: dict[str, Any]
    status: str
    why_corrupt: str | None
    method: dict[str, Any]
    settings: dict[str, Any]
    figures: dict[str, Any]
    speed: dict[str, float]
    records: list[str]
    children: list[str]
    policies: list[str]
    benchmarks: list[str]
    rollouts: int
    ledger: bool


class RecordsView(TypedDict):
    """Figures of a run by step: `values` has a list for each name, null where a step has none."""

    run: str
    look: LineStyle
    steps: list[int]
    values: dict[str, list[Any]]


class RolloutsView(TypedDict):
    """Completions that a training kept: the steps that have some, and those of one step."""

    run: str
    steps: list[int]
    step: int | None
    rows: list[dict[str, Any]]


class LedgerView(TypedDict):
    """How prompts were answered: sums of every step, and the rows of one step.

    `problems` has the problems of these rows by id, as far as they can be read.
    """

    run: str
    steps: list[dict[str, int]]
    step: int | None
    problems: dict[str, AskedProblem]
    rows: list[dict[str, Any]]


def run_view(id_: str, policies: Policies) -> RunView:
    """Return a run by its id. A corrupt run has what can be read of it. Raises StoreError."""
    facts = policies.runs.find(id_)
    run = facts.run
    state = run.read()
    corruption = state.corruption
    changed = "" if corruption else ", ".join(run.changed(*SEALED))
    records = run.metrics.read()
    names = dict.fromkeys(key for record in records for key, v in record.items() if is_number(v))
    return {
        "id": run.id,
        "look": look_of(run.id, policies.runs.looks()),
        "manifest": dict(state.manifest),
        "status": state.status,
        "why_corrupt": f"{corruption.cause}; {corruption.next_step}"
        if corruption
        else f"changed since the run ended: {changed}"
        if changed
        else None,
        "method": {} if corruption else facts.method,
        "settings": dict(facts.settings),
        "figures": dict(facts.figures),
        "speed": speed_figures(records),
        "records": [name for name in names if name not in ("step", "of")],
        "children": [
            str(child.run.id)
            for child in policies.runs.all()
            if child.about.get("parent") == run.id
        ],
        "policies": [] if corruption else policies_of(run),
        "benchmarks": [] if corruption else _benchmarks(run.id, policies),
        "rollouts": len(run.rollouts.read()),
        "ledger": run.ledger.folder.is_dir(),
    }


def records_view(facts: RunFacts, names: Sequence[str], policies: Policies) -> RecordsView:
    """Return figures of metrics.jsonl by step."""
    records = facts.run.metrics.read()
    return {
        "run": facts.run.id,
        "look": look_of(facts.run.id, policies.runs.looks()),
        "steps": [int(record["step"]) for record in records],
        "values": {name: [record.get(name) for record in records] for name in names},
    }


def rollouts_view(run: Run, step: int | None) -> RolloutsView:
    """Return the completions that a training kept at a step, by default its last with some."""
    rows = run.rollouts.read()
    steps = sorted({int(row["step"]) for row in rows})
    at_step = step if step in steps else (steps[-1] if steps else None)
    shortened = [
        {
            key: value[:_SHOWN_CHARACTERS] if isinstance(value, str) else value
            for key, value in row.items()
        }
        for row in rows
        if row["step"] == at_step
    ]
    return {"run": run.id, "steps": steps, "step": at_step, "rows": shortened}


def ledger_view(run: Run, step: int | None, policies: Policies) -> LedgerView:
    """Return how prompts were answered, summed by step, and the prompts of one step."""
    rows = run.ledger.read().to_pylist()
    sums: dict[int, dict[str, int]] = {}
    for row in rows:
        total = sums.setdefault(row["step"], {"step": row["step"], "prompts": 0, "trained": 0})
        total["prompts"] += 1
        total["trained"] += row["trained"]
        for name in ("n", "right", "wrong", "unparseable", "timeout", "error", "tokens"):
            total[name] = total.get(name, 0) + row[name]
    at_step = step if step in sums else (max(sums) if sums else None)
    step_rows = [row for row in rows if row["step"] == at_step]
    ids = {str(row["problem"]) for row in step_rows}
    return {
        "run": run.id,
        "steps": [sums[number] for number in sorted(sums)],
        "step": at_step,
        "problems": asked_problems(policies.training_problems(run), ids) if ids else {},
        "rows": step_rows,
    }


def _benchmarks(id_: str, policies: Policies) -> list[str]:
    try:
        return policies.benchmarks(id_)
    except SageError:
        return []
