"""Runs side by side: `sage runs list --columns`, `sage runs diff` and `sage runs plot`."""

from __future__ import annotations

import csv
import sys
from collections.abc import Sequence
from json import dumps
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.markup import escape
from rich.table import Table

from sage_cli.cli import completions
from sage_cli.cli.options import Json, RunName, RunRoot
from sage_cli.cli.terminal.console import console, emit, name_column
from sage_cli.cli.terminal.live import doing
from sage_cli.cli.terminal.reporting import Out, show_report
from sage_cli.errors import ConfigurationError
from sage_cli.store.runs.run import Run, Runs

if TYPE_CHECKING:
    from sage_cli.store.runs.run_facts import RunFacts


def list_facts(
    runs: Sequence[Run], columns: str | None, where: Sequence[str], as_csv: bool, json: bool
) -> None:
    """Print the runs that fit, with the given columns."""
    from sage_cli.reports.tables.render import no_formula
    from sage_cli.store.runs.run_facts import RunFacts, expanded, selected

    facts = [RunFacts.listed(run) for run in runs]
    fitting = selected(facts, where)
    names = ["id", *expanded(columns or "kind,status,parent", fitting or facts)]
    rows = [{name: run.value(name) for name in names} for run in fitting]
    if json:
        emit({"columns": names, "runs": rows})
    elif as_csv:
        writer = csv.writer(sys.stdout, lineterminator="\n")
        writer.writerow(map(no_formula, names))
        for row in rows:
            writer.writerow(no_formula(_cell(row[name], full=True)) for name in names)
    else:
        _print_rows(names, rows, fitting)


def _print_rows(
    names: Sequence[str], rows: Sequence[dict[str, Any]], fitting: Sequence[RunFacts]
) -> None:
    ids = name_column("run", (one.run.id for one in fitting))
    table = Table(ids, *names[1:], box=None)
    for row in rows:
        table.add_row(*(escape(_cell(row[name])) for name in names))
    console.print(table if rows else "no run fits")


def _cell(value: Any, *, full: bool = False) -> str:
    """Return a value as a cell: empty for None, numbers with four digits unless `full`."""
    if value is None:
        return ""
    if isinstance(value, float):
        return repr(value) if full else f"{value:.4g}"
    return dumps(value) if isinstance(value, list | dict | bool) else str(value)


def diff(
    a: RunName,
    b: Annotated[
        str, typer.Argument(help="The run to compare it with.", autocompletion=completions.runs)
    ],
    runs: RunRoot = None,
    json: Json = False,
) -> None:
    """Compare two runs: the settings that differ, and the figures of both."""
    from sage_cli.settings.sections.records import default_root
    from sage_cli.store.runs.run_facts import RunFacts, differences

    one, other = (RunFacts.of(Runs(runs or default_root()).find(name)) for name in (a, b))
    if one.run.folder.resolve() == other.run.folder.resolve():
        raise ConfigurationError(
            f"'{a}' and '{b}' are one run, {one.run.id}", "name another one: `sage runs list`"
        )
    parts: dict[str, dict[str, tuple[Any, Any]]] = {
        "settings": differences(one.settings, other.settings),
        "about": differences(one.about, other.about),
        "figures": {
            key: (one.figures.get(key), other.figures.get(key))
            for key in dict.fromkeys((*one.figures, *other.figures))
        },
    }
    if json:
        emit({"a": one.run.id, "b": other.run.id, **parts})
        return
    alone = {_section(key) for key in one.settings} ^ {_section(key) for key in other.settings}
    parts["settings"] = {
        key: pair for key, pair in parts["settings"].items() if _section(key) not in alone
    }
    if alone:
        console.print(f"only one of them has settings of {', '.join(sorted(alone))}")
    for name, pairs in parts.items():
        table = Table(name, one.run.id, other.run.id, box=None, padding=(0, 2, 0, 0))
        for key, values in pairs.items():
            table.add_row(key, *(escape(_cell(value)) for value in values))
        console.print(table if pairs else f"no difference in {name}", "")


def plot(
    names: Annotated[
        list[str],
        typer.Argument(
            metavar="RUN...",
            help="Runs by id or part of one; RUN=Label renames one.",
            autocompletion=completions.runs,
        ),
    ],
    y: Annotated[
        str | None, typer.Option(help="Keys of metrics.jsonl, comma-separated (default: reward).")
    ] = None,
    runs: RunRoot = None,
    out: Out = None,
    json: Json = False,
) -> None:
    """Draw recorded metrics by step: a panel per metric, a line per run."""
    from sage_cli.commands.measure.plot import plot as plot_runs
    from sage_cli.settings.sections.records import default_root

    keys = [key.strip() for key in (y or "").split(",") if key.strip()]
    with doing("drawing"):
        report = plot_runs(runs or default_root(), names, keys)
    show_report(report, json, out)


def _section(key: str) -> str:
    return key.partition(".")[0]
