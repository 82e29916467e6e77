"""`sage sweep`: a grid over the guide's settings."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from sage_cli.cli.live import Live
from sage_cli.cli.options import ConfigFile, DryRun, Json, Presets, RunRoot, Sets, load_config
from sage_cli.cli.plans import show_plan
from sage_cli.cli.reporting import show_report
from sage_cli.cli.rl import Compat


def command(
    space: Annotated[
        str | None, typer.Option("--space", help="tau,rho, or a YAML file of parameters.")
    ] = None,
    algo: Annotated[str | None, typer.Option("--algo", help="Algorithm of every trial.")] = None,
    compat: Compat = None,
    guide: Annotated[
        str | None, typer.Option("--guide", help="Guide of every trial (default: the space's).")
    ] = None,
    steps: Annotated[int | None, typer.Option(help="RL steps of a trial.")] = None,
    preset: Presets = None,
    config: ConfigFile = None,
    set_: Sets = None,
    runs: RunRoot = None,
    dry_run: DryRun = False,
    json: Json = False,
) -> None:
    """Train and measure every cell of a search space on development problems."""
    flags: dict[str, dict[str, Any]] = {
        "rl": {"algo": algo, "compat": compat},
        "guide": {"name": guide},
        "sweep": {"space": space, "steps": steps},
        "run": {"root": runs},
    }
    settings = load_config(preset, config, set_, **flags).config
    if settings.guide.name == "none":
        from sage_cli.sweep.read import guide_of

        flags["guide"] = {"name": guide_of(settings.sweep.space)}
        settings = load_config(preset, config, set_, **flags).config
    if dry_run:
        from sage_cli.workflows.sweep import plan

        show_plan(plan(settings), json)
        return
    from sage_cli.workflows.sweep import sweep

    with Live() as live:
        report = sweep(settings, live)
    show_report(report, json)
