"""`sage sweep`: a search over settings; `sage sweep list|show`: the stored ones."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.markup import escape
from rich.table import Table

from sage_cli.cli import options
from sage_cli.cli.app import new_app
from sage_cli.cli.console import console, emit, name_column
from sage_cli.cli.live import Live
from sage_cli.cli.options import METHOD, check_gpu_option, option
from sage_cli.cli.printing import show_plan, show_report
from sage_cli.cli.rl import TrainingCompat

if TYPE_CHECKING:
    from sage_cli.trials.sweep.folder import SweepFolder, Sweeps

app = new_app("Search for settings with Optuna: train and measure the trials of a search space.")
_Name = Annotated[str, typer.Argument(help="Name of a sweep, or an unambiguous part of it.")]
STATES = ("done", "failed", "pruned", "left")
RUNNING = "Where it runs"


@app.callback(invoke_without_command=True, no_args_is_help=False)
def command(
    ctx: typer.Context,
    space: Annotated[
        str | None,
        typer.Option(
            help=(
                "Search space: a name such as tau,rho, a YAML file, or ranges such as "
                "tau=0.2:0.8,rho=0.1|0.3,lr=1e-5:1e-3:log."
            )
        ),
    ] = None,
    sampler: Annotated[
        str | None,
        typer.Option(help="Optuna's sampler: grid, random, qmc, tpe, gp, cmaes or nsga2."),
    ] = None,
    trials: Annotated[
        int | None,
        typer.Option(
            help="Number of trials. All training seeds of a point together are one trial."
        ),
    ] = None,
    objective: Annotated[
        list[str] | None,
        typer.Option(
            help=(
                "Objective to maximise, for example pass@8 or 0.5*pass@1+0.5*pass@64. Two "
                "objectives give a Pareto front."
            )
        ),
    ] = None,
    seeds: Annotated[int | None, typer.Option(help="Number of training seeds per trial.")] = None,
    prune: Annotated[
        str | None,
        typer.Option(
            help=(
                "Pruner, which ends trials that perform worse: median, asha or hyperband "
                "(default: none)."
            )
        ),
    ] = None,
    algo: Annotated[str | None, option(METHOD, "Method of RL in every trial.")] = None,
    compat: TrainingCompat = None,
    guide: Annotated[
        str | None, option(METHOD, "Guide in every trial (default: the one that the space needs).")
    ] = None,
    steps: Annotated[int | None, option(METHOD, "Number of RL steps per trial.")] = None,
    init: options.Init = None,
    data: options.Data = None,
    question_field: options.QuestionField = None,
    gold_field: options.GoldField = None,
    executor: Annotated[
        str | None, option(RUNNING, "Executor that runs the tasks: local (default), ray or slurm.")
    ] = None,
    workers: Annotated[int | None, option(RUNNING, "Number of tasks at once.")] = None,
    address: Annotated[str | None, option(RUNNING, "Address of the Ray cluster.")] = None,
    detach: Annotated[
        bool,
        option(
            RUNNING,
            "With Slurm: submit the tasks and return. Run the same command again later to "
            "collect the results.",
            "--detach",
        ),
    ] = False,
    study: Annotated[str | None, option(RUNNING, "Name of the sweep.")] = None,
    preset: options.Presets = None,
    config: options.ConfigFile = None,
    set_: options.Sets = None,
    runs: options.RunRoot = None,
    dry_run: options.DryRun = False,
    gpu: options.Gpu = None,
    json: options.Json = False,
) -> None:
    """Train and measure trials of a search space on validation problems.

    Run the same command again to resume. A command below is about stored sweeps.
    """
    from sage_cli.config.load import require_named_model
    from sage_cli.config.unread_settings import check_settings_read
    from sage_cli.trials.sweep.plan import plan_sweep, start_from
    from sage_cli.trials.sweep.read_space import guide_of, searched_settings
    from sage_cli.trials.sweep.run import run_sweep

    if ctx.invoked_subcommand is not None:
        _check_no_options(ctx)
        return
    check_gpu_option(gpu, dry_run)
    flags: dict[str, dict[str, Any]] = {
        "rl": {"algo": algo, "compat": compat},
        "guide": {"name": guide},
        "data": {"rl": {"name": data, "fields": {"question": question_field, "gold": gold_field}}},
        "sweep": {
            "space": space,
            "sampler": sampler,
            "trials": trials,
            "objective": objective,
            "seeds": seeds,
            "prune": prune,
            "steps": steps,
            "study": study,
        },
        "executor": {"name": executor, "workers": workers, "address": address},
        "run": {"root": runs},
    }
    loaded = options.load_typed(preset, config, set_, **flags)
    text = loaded.config.sweep.space
    if loaded.config.guide.name == "none":
        flags["guide"] = {"name": guide_of(text)}
        loaded = options.load_typed(preset, config, set_, **flags)
    command_name = "sweep --init" if init is not None else "sweep"
    check_settings_read(loaded, command_name, searched_settings(text))
    settings = loaded.config
    if init is not None:
        settings = start_from(init, settings)
    require_named_model(settings)
    if dry_run:
        show_plan(lambda: plan_sweep(settings, gpu), json)
        return

    from sage_cli.view.page_file import write_page

    with Live() as live:
        report = run_sweep(settings, live, write_page, detach=detach)
    show_report(report, json)
    if not json:
        from sage_cli.trials.sweep.folder import PAGE

        console.print(f"page: [bold]{escape(str(report.folder / PAGE))}[/]", soft_wrap=True)


def _check_no_options(ctx: typer.Context) -> None:
    """Refuse options that stand before a command of the group."""
    for given in ctx.command.params:
        source = ctx.get_parameter_source(given.name or "")
        if source is not None and source.name == "COMMANDLINE":
            raise typer.BadParameter(
                f"{given.opts[0]} before '{ctx.invoked_subcommand}' has no effect"
            )


def _sweeps(root: Path | None) -> Sweeps:
    from sage_cli.settings.run import default_root
    from sage_cli.trials.sweep.folder import Sweeps

    return Sweeps(root or default_root())


@app.command("list", epilog="Example: sage sweep list")
def list_(runs: options.RunRoot = None, json: options.Json = False) -> None:
    """List all sweeps, the latest last."""
    sweeps = _sweeps(runs).all()
    if json:
        emit({"sweeps": [_facts(sweep) for sweep in sweeps]})
        return
    names = name_column("sweep", (sweep.name for sweep in sweeps))
    table = Table(names, "sampler", *STATES, "best", "run by", box=None)
    for sweep in sweeps:
        facts = _facts(sweep)
        states = facts["trials"]  # empty where another version of sage wrote it
        counts = (str(states.get(state, 0)) if states else "–" for state in STATES)
        best = escape(str(facts.get("best") or ""))
        table.add_row(sweep.name, str(facts.get("sampler")), *counts, best, sweep.driven_by or "")
    console.print(table if sweeps else "there are no sweeps yet; `sage sweep` runs one")


@app.command(epilog="Example: sage sweep show tau-rho")
def show(name: _Name, runs: options.RunRoot = None, json: options.Json = False) -> None:
    """Show a sweep's report, the commands of its best trials, and why trials failed."""
    sweep = _sweeps(runs).find(name)
    result = sweep.result
    places = {name: result.best(name) for name in result.objectives} if result else {}
    commands = sweep.commands(result) if result else {}
    best = {name: commands.get(str(row + 1)) for name, row in places.items() if row is not None}
    if json:
        emit({"sweep": _facts(sweep), "report": result, "best": best})
        return
    facts = _facts(sweep)
    counts = ", ".join(f"{facts['trials'].get(state, 0)} {state}" for state in STATES)
    state = f"run by {sweep.driven_by}" if sweep.driven_by else "no process runs it at present"
    console.print(f"[bold]{sweep.name}[/]: {counts}; {state}", soft_wrap=True)
    if result is None:
        console.print("there is no report yet; it is written when the sweep ends")
        return
    from sage_cli.reports.provenance import sampled_as
    from sage_cli.reports.terminal import print_table
    from sage_cli.trials.sweep.result_tables import sweep_tables

    if sweep.driven_by:
        console.print("The report of the previous process:", style="dim")
    for table in sweep_tables(result):
        print_table(table, console)
    for objective, command in best.items():
        console.print(f"best by {objective}: {command}", markup=False, soft_wrap=True)
    for number, trial in enumerate(result.trials):
        if trial.failure is not None and trial.failure.log:
            console.print(f"[bold]trial {number + 1}[/] failed; the last lines of its log:")
            console.print("\n".join(trial.failure.log), style="dim", markup=False, soft_wrap=True)
    console.print(sampled_as(sweep.provenance), style="dim", soft_wrap=True)
    console.print(f"files: [bold]{escape(str(sweep.path))}[/]", soft_wrap=True)
    if sweep.page.is_file():
        console.print(f"page: [bold]{escape(str(sweep.page))}[/]", soft_wrap=True)


def _facts(sweep: SweepFolder) -> dict[str, Any]:
    """The content of state.json, with the sweep's present driver and its folder."""
    state = {"trials": {}, **sweep.state}
    return {**state, "driven_by": sweep.driven_by, "folder": str(sweep.path)}
