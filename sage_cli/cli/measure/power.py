"""`sage power`: the smallest difference that a design can detect."""

from __future__ import annotations

from typing import Annotated

import typer

from sage_cli.cli import completions
from sage_cli.cli.console import show_report
from sage_cli.cli.live import Live
from sage_cli.cli.measure.measuring import load_for_measuring
from sage_cli.cli.options import (
    Benchmark,
    ConfigFile,
    Json,
    Ks,
    Presets,
    RunRoot,
    Sets,
    load_config,
)


def command(
    names: Annotated[
        list[str] | None,
        typer.Argument(
            help="Bases: files of counts, or runs and models with stored samples.",
            autocompletion=completions.runs,
        ),
    ] = None,
    problems: Annotated[
        str | None,
        typer.Option(help="Numbers of problems, as 30,60,300 (default: as counted, x2, x4)."),
    ] = None,
    samples: Annotated[
        str | None, typer.Option(help="Samples per problem and seed, n (default: 64,256,1024).")
    ] = None,
    seeds: Annotated[str, typer.Option(help="Evaluation seeds, as 1,3,5.")] = "1",
    k: Ks = None,
    loss: Annotated[bool, typer.Option("--loss", help="Detect losses, not gains.")] = False,
    heterogeneity: Annotated[
        float,
        typer.Option(
            help="How unequally problems change: the deviation of their log-odds' shifts."
        ),
    ] = 0.5,
    correlation: Annotated[
        float | None,
        typer.Option(
            help="Correlation of the two policies' grades on a sample with the same random "
            "numbers (default 0.36; 0 for different evaluation seeds)."
        ),
    ] = None,
    like: Annotated[
        str | None,
        typer.Option(help="A trained run whose stored samples tell the correlation with the base."),
    ] = None,
    benchmark: Benchmark = None,
    preset: Presets = None,
    config: ConfigFile = None,
    set_: Sets = None,
    runs: RunRoot = None,
    json: Json = False,
) -> None:
    """Find the smallest difference of pass@k that problems, samples and seeds can detect."""
    from sage_cli.commands.measure.power import power
    from sage_cli.evaluation.evaluate import Evaluation
    from sage_cli.metrics.counts.counts_file import is_counts_file

    models = [name for name in names or () if not is_counts_file(name)]
    if models or not names:
        flags = {"benchmark": benchmark}
        settings = load_for_measuring(models, preset, config, set_, runs, evaluation=flags).config
    else:
        settings = load_config(preset, config, set_, run={"root": runs}).config
    with Live() as live:
        report = power(
            Evaluation.of_config(settings), names or [], live, problems=problems,
            samples=samples, seeds=seeds, k=k, loss=loss, heterogeneity=heterogeneity,
            correlation=correlation, like=like,
        )  # fmt: skip
    show_report(report, json)
