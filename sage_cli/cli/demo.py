"""`sage demo`: the paper's effect in miniature, in a few minutes on a laptop."""

from __future__ import annotations

from sage_cli.cli.console import console, emit, show_plan, show_report
from sage_cli.cli.live import Live
from sage_cli.cli.options import DryRun, Json, Sets
from sage_cli.planning.dry_run import plan_of


def command(set_: Sets = None, dry_run: DryRun = False, json: Json = False) -> None:
    """Train by SFT, then by DAPO without KL and with the branch guide, and plot pass@k."""
    settings = tuple(set_ or ())
    from sage_cli.commands.demo import demo, stages

    if dry_run:
        show_plan(lambda: plan_of(stages("tiny", settings)), json)
        return
    with Live() as live:
        result = demo("tiny", settings, live)
    if json:
        folders = [str(run.folder) for run in result.runs]
        emit({"runs": folders, "curves": result.curves.as_json()})
        return
    show_report(result.curves)
    console.print("runs:", *(f"  {run.folder}" for run in result.runs), sep="\n")
    console.print(f"picture: [bold]{result.curves.folder / 'passk.png'}[/]", soft_wrap=True)
