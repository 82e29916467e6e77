"""`sage sweep`: a search over settings."""

from __future__ import annotations

from typing import Annotated, Any

import typer
from rich.markup import escape

from sage_cli.cli.console import console, refuse_gpu, show_plan, show_report
from sage_cli.cli.live import Live
from sage_cli.cli.options import (
    METHOD,
    ConfigFile,
    DryRun,
    Gpu,
    Json,
    Presets,
    RunRoot,
    Sets,
    load_config,
    option,
)
from sage_cli.cli.train.rl import Compat

RUNNING = "Where it runs"


def command(
    space: Annotated[
        str | None,
        typer.Option(
            help="A name as tau,rho; a YAML file; or tau=0.2:0.8,rho=0.1|0.3,lr=1e-5:1e-3:log."
        ),
    ] = None,
    sampler: Annotated[
        str | None, typer.Option(help="grid, random, qmc, tpe, gp, cmaes or nsga2.")
    ] = None,
    trials: Annotated[
        int | None,
        typer.Option(help="Points to try; seeds of a point count as one trial."),
    ] = None,
    objective: Annotated[
        list[str] | None,
        typer.Option(help="Maximise pass@8 or 0.5*pass@1+0.5*pass@64; two give a Pareto front."),
    ] = None,
    seeds: Annotated[
        int | None, typer.Option(help="Runs of each trial, each with another seed.")
    ] = None,
    prune: Annotated[
        str | None,
        typer.Option(help="median, asha or hyperband: end trials that lag behind."),
    ] = None,
    algo: Annotated[str | None, option(METHOD, "Algorithm of every trial.")] = None,
    compat: Compat = None,
    guide: Annotated[
        str | None, option(METHOD, "Guide of every trial (default: the space's).")
    ] = None,
    steps: Annotated[int | None, option(METHOD, "RL steps of a trial.")] = None,
    executor: Annotated[str | None, option(RUNNING, "local, ray or slurm.")] = None,
    workers: Annotated[int | None, option(RUNNING, "Tasks at once.")] = None,
    address: Annotated[str | None, option(RUNNING, "Address of the Ray cluster.")] = None,
    detach: Annotated[
        bool,
        option(
            RUNNING,
            "Slurm: submit tasks and return; run the same command later to collect results.",
            "--detach",
        ),
    ] = False,
    study: Annotated[str | None, option(RUNNING, "The sweep's name.")] = None,
    storage: Annotated[
        str | None,
        option(RUNNING, "The study's database: sqlite:///FILE or postgresql://USER@HOST/NAME."),
    ] = None,
    preset: Presets = None,
    config: ConfigFile = None,
    set_: Sets = None,
    runs: RunRoot = None,
    dry_run: DryRun = False,
    gpu: Gpu = None,
    json: Json = False,
) -> None:
    """Train and measure trials of a search space on validation problems."""
    refuse_gpu(gpu, dry_run)
    flags: dict[str, dict[str, Any]] = {
        "rl": {"algo": algo, "compat": compat},
        "guide": {"name": guide},
        "sweep": {
            "space": space, "sampler": sampler, "trials": trials, "objective": objective,
            "seeds": seeds, "prune": prune, "steps": steps,
            "study": study, "storage": storage,
        },
        "executor": {"name": executor, "workers": workers, "address": address},
        "run": {"root": runs},
    }  # fmt: skip
    settings = load_config(preset, config, set_, **flags).config
    if settings.guide.name == "none":
        from sage_cli.trials.search.space.read import guide_of

        flags["guide"] = {"name": guide_of(settings.sweep.space)}
        settings = load_config(preset, config, set_, **flags).config
    if dry_run:
        from sage_cli.commands.trials.sweep import dry_run as planned

        show_plan(lambda: planned(settings, gpu), json)
        return
    from sage_cli.commands.trials.sweep import sweep

    with Live() as live:
        report = sweep(settings, live, detach=detach)
    show_report(report, json)
    if not json:
        from sage_cli.trials.search.folder import PAGE

        console.print(f"page: [bold]{escape(str(report.folder / PAGE))}[/]", soft_wrap=True)
