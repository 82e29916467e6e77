"""`sage eval`: the paper's table."""

from __future__ import annotations

from typing import Annotated, Literal

import typer

from sage_cli.cli import options
from sage_cli.cli.live import Live
from sage_cli.cli.options import check_gpu_option
from sage_cli.cli.printing import ShowNotes, show_plan, show_report

PAPERS_SEEDS = 5
"""Not printed, but the only number that all means and deviations of Tables 1 and 3 can be of."""


def command(
    names: options.Names = None,
    benchmark: options.BenchmarkNames = None,
    k: options.Ks = None,
    n: options.Samples = None,
    seeds: options.Seeds = None,
    limit: options.Limit = None,
    paper: Annotated[
        str | None,
        typer.Option(
            help="Table of the paper to print with the results: table1, table3, table4 or table9."
        ),
    ] = None,
    protocol: Annotated[
        Literal["paper"] | None,
        typer.Option(
            help=(
                "paper: use five evaluation seeds, and also compute pass@k from the first k "
                "samples alone."
            )
        ),
    ] = None,
    allow_template_mismatch: options.OtherTemplate = False,
    compat: options.Compat = None,
    preset: options.Presets = None,
    config: options.ConfigFile = None,
    set_: options.Sets = None,
    runs: options.RunRoot = None,
    dry_run: options.DryRun = False,
    gpu: options.Gpu = None,
    notes: ShowNotes = False,
    json: options.Json = False,
) -> None:
    """Tabulate pass@k of runs or models over benchmarks and seeds."""
    from sage_cli.evaluation.evaluate import Evaluation
    from sage_cli.evaluation.measure import NamedModels, measure_table
    from sage_cli.models.measured_settings import measured_names
    from sage_cli.models.stages import plan_of

    check_gpu_option(gpu, dry_run)
    names = measured_names(names, set_, k)
    if protocol and seeds is None:
        seeds = PAPERS_SEEDS
    flags = options.evaluation_flags(benchmark, k, n, seeds, limit, allow_template_mismatch, compat)
    settings = options.load_for_measuring(
        names, preset, config, set_, runs, "eval", evaluation=flags
    )
    models = NamedModels(Evaluation(settings), names)
    if dry_run:
        show_plan(lambda: plan_of(models.stages, gpu), json, models.refusal)
        return
    with Live() as live:
        report = measure_table(models, live, paper=paper, k_samples=protocol == "paper")
    show_report(report, json, notes=notes)
