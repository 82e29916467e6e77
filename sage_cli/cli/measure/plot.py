"""`sage plot`: a training's reward, KL and whatever else it recorded, over its steps."""

from __future__ import annotations

from typing import Annotated

import typer

from sage_cli.cli import completions
from sage_cli.cli.options import Json, RunRoot
from sage_cli.cli.terminal.console import console, emit
from sage_cli.cli.terminal.live import doing
from sage_cli.cli.terminal.reporting import Out, show_report


def command(
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
    follow: Annotated[
        bool,
        typer.Option(
            "--follow", help="Draw again whenever steps are recorded, until the runs end."
        ),
    ] = False,
    runs: RunRoot = None,
    out: Out = None,
    json: Json = False,
) -> None:
    """Draw what trainings recorded, step by step: a panel per quantity, a line per run."""
    from sage_cli.commands.measure import plot
    from sage_cli.settings.sections.records import default_root

    root = runs or default_root()
    keys = [key.strip() for key in (y or "").split(",") if key.strip()]
    if not follow:
        with doing("drawing"):
            report = plot.plot(root, names, keys)
        show_report(report, json, out)
        return
    newest = None
    for report in plot.follow(root, names, keys):
        if out is not None:
            report.document.figures[0].draw(out)
        for row in report.document.tables[0].rows:
            key, label, step, _, last, *_ = row.cells
            console.print(f"{label}  step {step}  {key} {last}", soft_wrap=True)
        console.print(f"figure: [bold]{out or report.folder}[/]", soft_wrap=True)
        newest = report
    if json and newest is not None:
        emit(newest.as_json())
