"""How commands print what they made: reports, plans and trained runs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Annotated

import typer
from rich.markup import escape
from rich.table import Table

from sage_cli.cli.console import console, emit, error_object
from sage_cli.cli.live import doing

if TYPE_CHECKING:
    from sage_cli.errors import SageError
    from sage_cli.models.stages import Described
    from sage_cli.reports.document import Report
    from sage_cli.store.run import Run

PLAN_LABELS = {
    "length": "training length",
    "weights": "precision",
    "algorithm": "method",
    "overlong punishment": "overlong penalty",
    "tokens at most": "max. tokens",
    "batch": "batch per step",
    "rollout": "rollout sampling",
    "left": "remaining",
    "k": "values of k",
    "fits": "fits on the GPU",
    "kl term": "KL term",
    "space": "search space",
    "fewer trials": "why not more",
    "does not fit": "what would help",
    "at the peak": "phase with the peak",
    "unknown": "not known",
    "measure": "evaluation",
    "base": "initial policy",
    "start": "initial policy",
}
"""A key or title of a plan's JSON -> what is printed in its place."""

ShowNotes = Annotated[
    bool,
    typer.Option(
        "--notes",
        help="Print all notes and tables of the report, not only the most important ones.",
    ),
]


def show_report(report: Report, json: bool = False, *, notes: bool = False) -> None:
    """Print tables and the files' folder, with `notes` all details; or all numbers as JSON."""
    if json:
        emit(report.as_json())
        return
    from sage_cli.reports.terminal import print_document

    print_document(report.document, console, details=notes)
    console.print(f"files: [bold]{escape(str(report.folder))}[/]", soft_wrap=True)
    if report.document.figures:
        stems = ", ".join(f"{figure.stem}.png" for figure in report.document.figures)
        console.print(f"figure: {escape(stems)}", style="dim", soft_wrap=True)


def show_plan(
    plan: Callable[[], Sequence[Described]],
    json: bool = False,
    refusal: Callable[[], SageError | None] = lambda: None,
) -> None:
    """Make a plan and print its stages: what each would do, and what of it is done.

    `refusal` returns what the command would be refused for now, though a plan of it can be made:
    what it would cost is asked before there is anything to measure, too.
    """
    with doing("planning"):
        described, refused = plan(), refusal()
    if json:
        stages = [{"stage": stage.title, **stage.facts} for stage in described]
        error = refused and error_object(refused.cause, refused.next_step, refused.exit_code)
        emit({"ready": refused is None, "stages": stages, **(error or {})})
        return
    for stage in described:
        table = Table(show_header=False, box=None, padding=(0, 2, 0, 2))
        for name, value in stage.facts.items():
            if (name, value) == ("compat", "none"):
                continue  # JSON says it; a reader need not learn what it would be
            text = ("no", "yes")[value] if isinstance(value, bool) else str(value)
            table.add_row(PLAN_LABELS.get(name, name), text)
        console.print(f"[bold]{PLAN_LABELS.get(stage.title, stage.title)}[/]", table)
    console.print("dry run: nothing was trained or sampled")
    if refused is not None:
        console.print(
            "[yellow]not ready:[/] without --dry-run, this command is refused now, because "
            f"{escape(refused.cause)} ({escape(refused.next_step or '')})",
            soft_wrap=True,
        )


def show_offline_tracker(run: Run) -> None:
    """Print where W&B's offline files of a run are, and what uploads them; nothing without any."""
    offline = sorted((run.folder / "wandb").glob("offline-run-*"))
    if offline:
        console.print(
            f"W&B is offline: `wandb sync {escape(str(offline[-1]))}` uploads the run "
            "(--set tracking.wandb=online or off)",
            style="dim",
            soft_wrap=True,
        )


def show_trained(line: str, run: Run, *, measured: bool, json: bool) -> None:
    """Print `line` and, if `run` was `measured`, its figures; with `json` one object."""
    from sage_cli.store.evaluations import evaluation_figures

    figures = evaluation_figures(run) if measured else {}
    if json:
        emit(run.read_manifest() | ({"evaluations": figures} if measured else {}))
        return
    console.print(line, soft_wrap=True)  # a command in it can be copied
    for name, value in figures.items():
        if "/pass@" in name:
            console.print(f"  {escape(name)}  [cyan]{value:.4f}[/]")
