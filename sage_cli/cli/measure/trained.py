"""The last lines of a command that trains."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.markup import escape

from sage_cli.cli.terminal.console import console, emit

if TYPE_CHECKING:
    from sage_cli.store.runs.run import Run


def show_trained(line: str, run: Run, *, measured: bool, json: bool) -> None:
    """Print `line` and, if `run` was `measured`, its figures; with `json` one object."""
    from sage_cli.store.runs.evaluations import evaluation_figures

    figures = evaluation_figures(run) if measured else {}
    if json:
        emit(run.manifest | ({"evaluations": figures} if measured else {}))
        return
    console.print(line)
    for name, value in figures.items():
        if "/pass@" in name:
            console.print(f"  {escape(name)}  [cyan]{value:.4f}[/]")
