"""A report on the terminal, or as the one JSON object of a `--json` command."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.markup import escape

from sage_cli.cli.terminal.console import console, emit
from sage_cli.errors import ConfigurationError

if TYPE_CHECKING:
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
