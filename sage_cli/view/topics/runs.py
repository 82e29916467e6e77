"""The table of runs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from typing_extensions import TypedDict

from sage_cli.config.fields import settings
from sage_cli.store.runs.run_facts import ABOUT, RunFacts
from sage_cli.view.stored.runs_read import Look, RunsRead, look_of, looks_of

FIRST, LAST = ("id", "status", "step", "of"), ("reward", "started", "seconds", "kind", "parent")
"""Columns that are always sent, before and after the others: the page reads some of them."""


class RunRow(TypedDict):
    """A run of the table: a value for each of the columns, null for none."""

    look: Look
    values: dict[str, Any]


class RunsView(TypedDict):
    """Runs, oldest first; `known` names every column that may be asked for."""

    root: str
    columns: list[str]
    known: list[str]
    runs: list[RunRow]


def runs_view(runs: RunsRead, asked: Sequence[str]) -> RunsView:
    """Return every run with the usual columns, `asked`, and pass@k on each benchmark.

    A name that no run knows is a column of nulls.
    """
    every = runs.all()
    looks = looks_of(every)
    columns = list(dict.fromkeys([*FIRST, *asked, *_measured(every), *LAST]))
    return {
        "root": str(runs.root.resolve()),
        "columns": columns,
        "known": _known(every),
        "runs": [
            {
                "look": look_of(facts.run.id, looks),
                "values": {name: facts.value(name) for name in columns},
            }
            for facts in every
        ],
    }


def _measured(every: Sequence[RunFacts]) -> list[str]:
    """Return pass@1 and pass@k at the largest k of each benchmark, as figures are named."""
    largest: dict[str, int] = {}
    for facts in every:
        for name in facts.figures:
            k, on, benchmark = name.partition(" on ")
            if on and k.startswith("pass@") and k[5:].isdigit():
                largest[benchmark] = max(largest.get(benchmark, 1), int(k[5:]))
    return [
        f"pass@{k} on {benchmark}"
        for benchmark, most in largest.items()
        for k in dict.fromkeys((1, most))
    ]


def _known(every: Sequence[RunFacts]) -> list[str]:
    """Return the names of all columns: of the manifest, figures of any run, settings."""
    figures = {name for facts in every for name in facts.figures}
    return [*ABOUT, *sorted(figures), *sorted(settings())]
