"""A report on the terminal, or as the one JSON object of a `--json` command."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.markup import escape

from sage_cli.cli.console import console, emit

if TYPE_CHECKING:
    from sage_cli.reports.document import Report


def show_report(report: Report, json: bool = False) -> None:
    """The tables, the notes and where the files are; or all numbers as JSON."""
    if json:
        emit(report.as_json())
        return
    from sage_cli.reports.terminal import print_document

    print_document(report.document, console)
    console.print(f"files: [bold]{escape(str(report.folder))}[/]", soft_wrap=True)
