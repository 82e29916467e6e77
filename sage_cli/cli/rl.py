"""`sage rl`: train by RL with a shaped anchor."""

from __future__ import annotations

from typing import Annotated

from sage_cli.cli import options
from sage_cli.cli.console import console, refuse_gpu, show_plan, show_trained
from sage_cli.cli.options import METHOD, TRAINING, option

Compat = Annotated[
    str | None,
    option(METHOD, "official: what the authors' code does (default: the paper).", "--compat"),
]


def command(
    algo: options.Algo = None,
    compat: Compat = None,
    guide: options.Guide = None,
    tau: options.Tau = None,
    rho: options.Rho = None,
    kl: Annotated[str | None, option(METHOD, "reverse, forward or none.", "--kl")] = None,
    beta: Annotated[float | None, option(METHOD, "Weight of the KL term.")] = None,
    advantage: Annotated[
        str | None, option(METHOD, "group, none or beta, if the method allows a choice.")
    ] = None,
    steps: Annotated[int | None, option(TRAINING, "Optimiser steps (default: rl.steps).")] = None,
    lr: options.LearningRate = None,
    seed: Annotated[int | None, option(TRAINING, "Seed of the training.")] = None,
    full: Annotated[bool, option(TRAINING, "Train all weights, not adapters.", "--full")] = False,
    processes: Annotated[int | None, option(TRAINING, "How many processes train together.")] = None,
    accelerate: Annotated[
        str | None, option(TRAINING, "How accelerate launches them: ddp, fsdp2, zero3 or a file.")
    ] = None,
    init: options.Init = None,
    data: options.Data = None,
    question_field: options.QuestionField = None,
    gold_field: options.GoldField = None,
    allow_template_mismatch: options.OtherTemplate = False,
    preset: options.Presets = None,
    config: options.ConfigFile = None,
    set_: options.Sets = None,
    runs: options.RunRoot = None,
    fresh: options.Fresh = False,
    measure: options.Measure = False,
    dry_run: options.DryRun = False,
    gpu: options.Gpu = None,
    json: options.Json = False,
) -> None:
    """Train a policy by RL whose KL anchor is shaped by a guide."""
    from sage_cli.cli.console import Live
    from sage_cli.cli.training_run import RlTraining, unnamed_preset
    from sage_cli.models.planned import plan_of

    refuse_gpu(gpu, dry_run)
    settings = options.load_config(
        preset,
        config,
        set_,
        "rl --init" if init else "rl",
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
        data={"rl": {"name": data, "fields": {"question": question_field, "gold": gold_field}}},
        run={"root": runs},
    )
    training = RlTraining.of(settings, init, measure=measure)
    note = unnamed_preset(init, settings, named=bool(preset or config))
    if note and not json:
        console.print(note)
    if dry_run:
        show_plan(lambda: plan_of(training.stages, gpu), json)
        return
    with Live() as live:
        run = training.carry_out(live, fresh=fresh)
    more = "" if measure else f"  (`sage passk {run.id}` measures it)"
    show_trained(f"trained: [bold]{run.folder}[/]{more}", run, measured=measure, json=json)
