"""The files of runs: `sage runs prune`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.markup import escape
from rich.table import Table

from sage_cli.cli.options import DryRun, Json, RunRoot
from sage_cli.cli.terminal.console import console, emit
from sage_cli.cli.terminal.live import doing

if TYPE_CHECKING:
    from sage_cli.commands.stored.prune import Found


MIB = 2**20


def prune(
    completions: Annotated[
        bool, typer.Option("--completions", help="Also completions that trainings kept.")
    ] = False,
    measured: Annotated[
        bool, typer.Option("--measured", help="Also checkpoints with stored samples.")
    ] = False,
    orphans: Annotated[
        bool, typer.Option("--orphans", help="Also samples of models that no run here has.")
    ] = False,
    dry_run: DryRun = False,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Don't ask.")] = False,
    runs: RunRoot = None,
    json: Json = False,
) -> None:
    """Delete what no result needs: checkpoints of finished runs, and what is named.

    It shows the plan and asks; "no" exits with 1.
    """
    from sage_cli.commands.stored.prune import Wanted, carry_out, plan_prune
    from sage_cli.settings.sections.records import default_root
    from sage_cli.store.runs.run import Runs

    with doing("looking for what can go"):
        plan = plan_prune(Runs(runs or default_root()), Wanted(completions, measured, orphans))
    if not json:
        _show("can be deleted", plan.deleted)
        _show("kept", plan.kept)
    if plan.deleted and not dry_run:
        if not yes:
            typer.confirm(f"delete {_total(plan.deleted)}?", abort=True, err=json)
        deleted: Sequence[Found] = carry_out(plan)
    else:
        deleted = plan.deleted
    if json:
        answer = {
            "deleted": [_row(one) for one in deleted],
            "kept": [_row(one) for one in plan.kept],
            "carried_out": bool(plan.deleted) and not dry_run,
        }
        emit(answer)
    elif plan.deleted and not dry_run:
        console.print(f"deleted {_total(deleted)}")


def _show(title: str, found: Sequence[Found]) -> None:
    """Print folders of one reason and run as a line."""
    if not found:
        console.print(f"{title}: nothing")
        return
    groups: dict[tuple[str, str], list[Found]] = {}
    for one in found:
        groups.setdefault((one.run.id if one.run else "", one.why), []).append(one)
    table = Table("run", "folders", "MiB", "why", box=None)
    for (run, why), of in groups.items():
        size = sum(one.size for one in of) / MIB
        names = of[0].path.name if len(of) == 1 else f"{of[0].path.name} and {len(of) - 1} more"
        table.add_row(escape(run), escape(names), f"{size:,.1f}", escape(why))
    console.print(f"[bold]{title}[/]: {_total(found)}", table, sep="\n")


def _total(found: Sequence[Found]) -> str:
    folders = f"{len(found):,} folder{'s' if len(found) != 1 else ''}"
    return f"{folders}, {sum(one.size for one in found) / MIB:,.1f} MiB"


def _row(one: Found) -> dict[str, Any]:
    run = one.run.id if one.run else None
    return {"path": str(one.path), "bytes": one.size, "why": one.why, "run": run}
