"""`sage reports list`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.table import Table
from rich.text import Text

from sage_cli.cli.console import console, emit
from sage_cli.cli.group import new_app
from sage_cli.cli.options import Json, RunRoot

if TYPE_CHECKING:
    from sage_cli.cli.terminal.answers import ReportsAnswer

app = new_app("Find the reports that commands have written.")


@app.callback()
def options() -> None:
    """Find the reports that commands have written."""


@app.command("list")
def list_(runs: RunRoot = None, json: Json = False) -> None:
    """List all reports, newest first, with the command that wrote each."""
    from sage_cli.reports.document import written_reports
    from sage_cli.settings.sections.records import default_root

    reports = written_reports(runs or default_root())
    if json:
        answer: ReportsAnswer = {"reports": reports}
        emit(answer)
        return
    if not reports:
        console.print("no reports yet: `sage passk`, `eval`, `compare` and others write them")
        return
    table = Table("written", "report", "folder", box=None, padding=(0, 2, 0, 0))
    for one in reports:
        about = Text(f"{one.title}\n{one.command or ''}".strip())
        table.add_row(one.written.replace("T", " ")[:16], about, Text(one.folder))
    console.print(table)
