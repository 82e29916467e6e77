"""How `--dry-run` shows what would happen."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from rich.table import Table

from sage_cli.cli.console import console, emit

if TYPE_CHECKING:
    from sage_cli.config.in_words import Stage


def show_plan(planned: Sequence[Stage], json: bool = False) -> None:
    """Print stages with what each would do and what is there of it."""
    if json:
        emit({"stages": [{"stage": stage.title, **stage.facts} for stage in planned]})
        return
    for stage in planned:
        table = Table(show_header=False, box=None, padding=(0, 2, 0, 2))
        for name, value in stage.facts.items():
            table.add_row(name, str(value))
        console.print(f"[bold]{stage.title}[/]", table)
    console.print("dry run: nothing was written")
