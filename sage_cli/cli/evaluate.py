"""`sage eval`: the paper's table."""

from __future__ import annotations

from typing import Annotated, Literal

import typer

from sage_cli.cli.live import Live
from sage_cli.cli.measuring import (
    evaluation_flags,
    load_for_measuring,
    may_train,
    measured_names,
)
from sage_cli.cli.options import (
    Benchmark,
    Compat,
    ConfigFile,
    DryRun,
    Gpu,
    Json,
    Ks,
    Limit,
    Names,
    OtherTemplate,
    Presets,
    RunRoot,
    Samples,
    Seeds,
    Sets,
    Train,
)
from sage_cli.cli.plans import refuse_card, show_plan
from sage_cli.cli.reporting import show_report

Published = Literal["paper"]
PAPERS_SEEDS = 5
"""Not printed, but the only number that all means and deviations of Tables 1 and 3 can be of."""


def command(
    names: Names = None,
    benchmark: Benchmark = None,
    k: Ks = None,
    n: Samples = None,
    seeds: Seeds = None,
    limit: Limit = None,
    paper: Annotated[
        str | None,
        typer.Option(
            "--paper", help="Show the paper's table1, table3, table4 or table9 beside it."
        ),
    ] = None,
    protocol: Annotated[
        Published | None,
        typer.Option(
            help="paper: five evaluation seeds, and pass@k also from the first k samples alone."
        ),
    ] = None,
    allow_template_mismatch: OtherTemplate = False,
    compat: Compat = None,
    preset: Presets = None,
    config: ConfigFile = None,
    set_: Sets = None,
    runs: RunRoot = None,
    train: Train = None,
    dry_run: DryRun = False,
    gpu: Gpu = None,
    json: Json = False,
) -> None:
    """Tabulate pass@k of runs or models over benchmarks and seeds."""
    refuse_card(gpu, dry_run)
    names = measured_names(names, set_, k)
    if protocol and seeds is None:
        seeds = PAPERS_SEEDS
    flags = evaluation_flags(benchmark, k, n, seeds, limit, allow_template_mismatch)
    flags |= {"compat": compat}
    settings = load_for_measuring(names, preset, config, set_, runs, evaluation=flags).config
    if dry_run:
        from sage_cli.workflows.passk import plan

        show_plan(lambda: plan(settings, names, gpu), json)
        return
    from sage_cli.workflows.evaluate import evaluate

    trained = may_train(train, names, settings, chosen=bool(preset or config))
    with Live() as live:
        report = evaluate(
            settings, names, live, paper=paper, k_samples=protocol == "paper", train=trained
        )
    show_report(report, json)
