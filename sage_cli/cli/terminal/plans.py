"""Print the plan of `--dry-run`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from rich.table import Table

from sage_cli.cli.terminal.console import console, emit
from sage_cli.cli.terminal.live import doing
from sage_cli.errors import ConfigurationError

if TYPE_CHECKING:
    from sage_cli.cli.terminal.answers import PlanAnswer
    from sage_cli.planning.dry_run import Described


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
        answer: PlanAnswer = {"stages": stages}
        emit(answer)
        return
    for stage in described:
        table = Table(show_header=False, box=None, padding=(0, 2, 0, 2))
        for name, value in stage.facts.items():
            said = ("no", "yes")[value] if isinstance(value, bool) else str(value)
            table.add_row(name, said)
        console.print(f"[bold]{stage.title}[/]", table)
    console.print("dry run: nothing was written")
