"""`sage sft`: train the initial policy of RL."""

from __future__ import annotations

from typing import Annotated

import typer

from sage_cli.cli import options
from sage_cli.cli.console import console
from sage_cli.cli.options import check_gpu_option
from sage_cli.cli.printing import show_plan, show_trained


def command(
    preset: options.Presets = None,
    config: options.ConfigFile = None,
    set_: options.Sets = None,
    steps: Annotated[int | None, typer.Option(help="Number of optimiser steps.")] = None,
    lr: options.LearningRate = None,
    seed: Annotated[int | None, typer.Option(help="Training seed.")] = None,
    runs: options.RunRoot = None,
    fresh: options.Fresh = False,
    measure: options.MeasureToo = False,
    dry_run: options.DryRun = False,
    gpu: options.Gpu = None,
    json: options.Json = False,
) -> None:
    """Train the initial policy by supervised fine-tuning (SFT), or reuse its finished run."""
    from sage_cli.cli.live import Live
    from sage_cli.models.planned import planned_base
    from sage_cli.models.shipped_base import shipped_source
    from sage_cli.models.stages import plan_of
    from sage_cli.store.run import Runs
    from sage_cli.training.run import SftTraining

    check_gpu_option(gpu, dry_run)
    asked = {"steps": steps, "learning_rate": lr, "seed": seed}
    settings = options.load_config(preset, config, set_, "sft", sft=asked, run={"root": runs})
    training = SftTraining.of(settings, measure=measure)
    # RL that names no initial policy takes the one that comes with sage where that is the same
    start = planned_base(settings, Runs(settings.run.root)).run
    other = shipped_source(start) is not None
    if other and start is not None and not json:
        console.print(
            f"`sage rl` needs no SFT here: it starts from {start.id}, which comes with sage. This "
            "command trains another initial policy by the same settings",
        )
    if dry_run:
        show_plan(lambda: plan_of(training.stages, gpu), json)
        return
    with Live() as live:
        run = training.execute(live, fresh=fresh)
    more = f"  (`sage rl --init {run.id}` starts from it; `sage rl` takes sage's own)"
    show_trained(
        f"initial policy: [bold]{run.folder}[/]{more if other else ''}",
        run,
        measured=measure,
        json=json,
    )
