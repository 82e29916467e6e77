"""`sage rl`: train by RL with a shaped anchor."""

from __future__ import annotations

from typing import Annotated

from sage_cli.cli import options
from sage_cli.cli.console import console
from sage_cli.cli.options import METHOD, TRAINING, check_gpu_option, option
from sage_cli.cli.printing import show_offline_tracker, show_plan, show_trained

TrainingCompat = Annotated[
    str | None,
    option(
        METHOD,
        "official: use the settings of the authors' code where they differ from the paper.",
        "--compat",
    ),
]


def command(
    algo: options.Algo = None,
    compat: TrainingCompat = None,
    guide: options.GuideName = None,
    tau: options.Tau = None,
    rho: options.Rho = None,
    kl: Annotated[
        str | None,
        option(
            METHOD,
            "Direction of the KL divergence to the reference: reverse, forward or none (default: "
            "the method's own; reverse with a guide).",
            "--kl",
        ),
    ] = None,
    beta: Annotated[float | None, option(METHOD, "Weight of the KL term (the KL penalty).")] = None,
    advantage: Annotated[
        str | None,
        option(
            METHOD,
            "Normalisation of advantages, if the method allows a choice: group, none or beta.",
        ),
    ] = None,
    steps: Annotated[
        int | None, option(TRAINING, "Number of optimiser steps (default: the preset's).")
    ] = None,
    lr: options.LearningRate = None,
    seed: Annotated[int | None, option(TRAINING, "Training seed.")] = None,
    full: Annotated[
        bool, option(TRAINING, "Train all weights instead of LoRA adapters.", "--full")
    ] = False,
    processes: Annotated[
        int | None, option(TRAINING, "Number of data-parallel training processes.")
    ] = None,
    accelerate: Annotated[
        str | None,
        option(
            TRAINING, "Configuration of Accelerate that launches them: ddp, fsdp2, zero3 or a file."
        ),
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
    measure: options.MeasureToo = False,
    dry_run: options.DryRun = False,
    gpu: options.Gpu = None,
    json: options.Json = False,
) -> None:
    """Train a model with RL, optionally with a guide that reshapes the KL anchor."""
    from sage_cli.cli.live import Live
    from sage_cli.models.stages import plan_of
    from sage_cli.models.start_settings import unnamed_preset
    from sage_cli.training.run import RlTraining

    check_gpu_option(gpu, dry_run)
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
        run = training.execute(live, fresh=fresh)
    more = "" if measure else f"  (`sage passk {run.id}` measures it)"
    show_trained(f"trained: [bold]{run.folder}[/]{more}", run, measured=measure, json=json)
    if not json:
        show_offline_tracker(run)
