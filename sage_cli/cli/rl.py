"""`sage rl`: train by RL with a shaped anchor."""

from __future__ import annotations

from typing import Annotated

import typer

from sage_cli.cli.live import Live
from sage_cli.cli.options import (
    METHOD,
    TRAINING,
    Algo,
    ConfigFile,
    DryRun,
    Fresh,
    Gpu,
    Guide,
    Json,
    LearningRate,
    Measure,
    OtherTemplate,
    Presets,
    ReplaceParent,
    Rho,
    RunRoot,
    Sets,
    Tau,
    load_config,
)
from sage_cli.cli.plans import refuse_card, show_plan
from sage_cli.cli.trained import show_trained

Compat = Annotated[
    str | None,
    typer.Option(
        "--compat",
        help="official: what the authors' code does (docs/fidelity.md).",
        rich_help_panel=METHOD,
    ),
]


def command(
    algo: Algo = None,
    compat: Compat = None,
    guide: Guide = None,
    tau: Tau = None,
    rho: Rho = None,
    kl: Annotated[
        str | None, typer.Option("--kl", help="reverse, forward or none.", rich_help_panel=METHOD)
    ] = None,
    beta: Annotated[
        float | None, typer.Option(help="Weight of the KL term.", rich_help_panel=METHOD)
    ] = None,
    advantage: Annotated[
        str | None,
        typer.Option(
            help="group, none or beta, where the method leaves it open.",
            rich_help_panel=METHOD,
        ),
    ] = None,
    steps: Annotated[
        int | None, typer.Option(help="Optimiser steps.", rich_help_panel=TRAINING)
    ] = None,
    lr: LearningRate = None,
    seed: Annotated[
        int | None, typer.Option(help="Seed of the training.", rich_help_panel=TRAINING)
    ] = None,
    full: Annotated[
        bool,
        typer.Option("--full", help="Train all weights, not adapters.", rich_help_panel=TRAINING),
    ] = False,
    processes: Annotated[
        int | None,
        typer.Option(help="How many processes train together.", rich_help_panel=TRAINING),
    ] = None,
    accelerate: Annotated[
        str | None,
        typer.Option(
            help="How accelerate launches them: ddp, fsdp2, zero3 or a file.",
            rich_help_panel=TRAINING,
        ),
    ] = None,
    init: Annotated[
        str | None,
        typer.Option(
            help="Start from this run or model, not from the preset's base.",
            rich_help_panel=TRAINING,
        ),
    ] = None,
    allow_template_mismatch: OtherTemplate = False,
    preset: Presets = None,
    config: ConfigFile = None,
    set_: Sets = None,
    runs: RunRoot = None,
    fresh: Fresh = False,
    replace_parent: ReplaceParent = False,
    measure: Measure = False,
    dry_run: DryRun = False,
    gpu: Gpu = None,
    json: Json = False,
) -> None:
    """Train a policy by RL whose KL anchor is shaped by a guide."""
    refuse_card(gpu, dry_run)
    loaded = load_config(
        preset,
        config,
        set_,
        model={"tuning": "full" if full else None},
        rl={
            "algo": algo,
            "compat": compat,
            "advantage": advantage,
            "steps": steps,
            "learning_rate": lr,
            "seed": seed,
            "processes": processes,
            "accelerate": accelerate,
            "allow_template_mismatch": allow_template_mismatch or None,
        },
        guide={"name": guide, "tau": tau, "rho": rho},
        anchor={"kl": kl, "beta": beta},
        run={"root": runs},
    )
    if dry_run:
        from sage_cli.workflows.rl_plan import plan

        show_plan(lambda: plan(loaded.config, init, measure=measure, gpu=gpu), json)
        return
    from sage_cli.workflows.rl import rl

    with Live() as live:
        run = rl(
            loaded.config,
            live,
            init=init,
            fresh=fresh,
            replace_parent=replace_parent,
            measure=measure,
        )
    more = "" if measure else "  (`sage passk` measures it)"
    show_trained(f"trained: [bold]{run.folder}[/]{more}", run, measured=measure, json=json)
