"""`sage theory`: checks of the paper's equations."""

from __future__ import annotations

import typer

from sage_cli.cli.options import Json, RunRoot, load_config
from sage_cli.cli.terminal.live import Live
from sage_cli.cli.terminal.reporting import show_report
from sage_cli.errors import EXIT_OTHER


def command(runs: RunRoot = None, json: Json = False) -> None:
    """Check the paper's equations by enumeration; exit with 1 if one fails."""
    settings = load_config(None, None, None, run={"root": runs}).config
    with Live() as live:
        with live.doing("loading libraries"):
            from sage_cli.commands.train.theory import theory
        report = theory(settings.run.root, live)
    show_report(report, json)
    if not report.document.data["holds"]:
        raise typer.Exit(EXIT_OTHER)
