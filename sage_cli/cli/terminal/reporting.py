"""Plans and reports on the terminal, or as the one JSON object of a `--json` command."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.markup import escape
from rich.table import Table

from sage_cli.cli.terminal.console import console, emit
from sage_cli.cli.terminal.live import doing
from sage_cli.errors import ConfigurationError

if TYPE_CHECKING:
    from sage_cli.planning.dry_run import Described
    from sage_cli.reports.document import Report

PICTURES = (".pdf", ".png", ".svg")


def _is_picture(file: Path | None) -> Path | None:
    """Return the file. Raises ConfigurationError for an ending that is no picture's."""
    if file is not None and file.suffix not in PICTURES:
        raise ConfigurationError(
            f"--out {file}: a picture ends in {', '.join(PICTURES)}", "for example --out curves.pdf"
        )
    return file


Out = Annotated[
    Path | None,
    typer.Option(
        "--out",
        callback=_is_picture,
        help="Also write the figure to this file: .pdf, .png or .svg.",
    ),
]

Notes = Annotated[
    bool, typer.Option("--notes", help="Print all notes and tables that the report's files have.")
]


def show_report(
    report: Report, json: bool = False, out: Path | None = None, *, notes: bool = False
) -> None:
    """Print tables, notes and the files' folder, or all numbers as JSON.

    Details are printed with `notes`. The report's first figure is saved as `out`.
    """
    if out is not None and report.document.figures:
        report.document.figures[0].draw(out)
    if json:
        emit(report.as_json())
        return
    from sage_cli.reports.terminal import print_document

    print_document(report.document, console, details=notes)
    if out is not None:
        console.print(f"figure: [bold]{escape(str(out))}[/]", soft_wrap=True)
    console.print(f"files: [bold]{escape(str(report.folder))}[/]", soft_wrap=True)


def refuse_gpu(gpu: str | None, dry_run: bool) -> None:
    """Raise ConfigurationError for a GPU that is named where nothing would read it."""
    if gpu is not None and not dry_run:
        raise ConfigurationError(
            f"--gpu {gpu} names the GPU that a plan is made for, and --dry-run is missing",
            "add --dry-run, or leave out --gpu",
        )


def show_plan(plan: Callable[[], Sequence[Described]], json: bool = False) -> None:
    """Make a plan and print its stages: what each would do, and what of it is done."""
    with doing("planning"):
        described = plan()
    if json:
        stages: list[Any] = [{"stage": stage.title, **stage.facts} for stage in described]
        emit({"stages": stages})
        return
    for stage in described:
        table = Table(show_header=False, box=None, padding=(0, 2, 0, 2))
        for name, value in stage.facts.items():
            said = ("no", "yes")[value] if isinstance(value, bool) else str(value)
            table.add_row(name, said)
        console.print(f"[bold]{stage.title}[/]", table)
    console.print("dry run: nothing was written")
