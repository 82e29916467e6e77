"""`sage analyze`: analyses of stored samples and training records."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from sage_cli.cli import options
from sage_cli.cli.console import console, emit
from sage_cli.cli.live import Live
from sage_cli.cli.printing import show_report


def command(
    name: Annotated[
        str | None,
        typer.Argument(
            metavar="[NAME]", help="Name of the analysis. Without a name, all analyses are listed."
        ),
    ] = None,
    names: options.Names = None,
    base: Annotated[
        str | None,
        typer.Option(
            help="The base: the model to compare with (default: the first run's initial policy)."
        ),
    ] = None,
    problem: Annotated[
        list[str] | None, typer.Option(help="Show only problems whose ID begins with this text.")
    ] = None,
    delta: Annotated[
        str | None,
        typer.Option(
            help="For support: thresholds on the fraction of correct samples, for example 0,0.01."
        ),
    ] = None,
    patterns: Annotated[
        Path | None, typer.Option(help="For patterns: YAML file with regular expressions.")
    ] = None,
    alpha: Annotated[
        list[float] | None, typer.Option(min=1, help="For sharpening: exponent alpha; repeatable.")
    ] = None,
    survival: Annotated[
        bool | None,
        typer.Option(
            "--survival", help="For support: let every model score the correct samples of the base."
        ),
    ] = None,
    benchmark: options.BenchmarkNames = None,
    n: options.Samples = None,
    seeds: options.Seeds = None,
    limit: options.Limit = None,
    allow_template_mismatch: options.OtherTemplate = False,
    preset: options.Presets = None,
    config: options.ConfigFile = None,
    set_: options.Sets = None,
    runs: options.RunRoot = None,
    json: options.Json = False,
) -> None:
    """Analyse stored samples and records, for example their patterns, support or diversity."""
    if name is None:
        _list(json)
        return
    from sage_cli.analysis.answer import Analysing, answer
    from sage_cli.settings.analysis import AnalysisOptions

    named, labels = options.labelled_names(names or [])
    flags = options.evaluation_flags(benchmark, None, n, seeds, limit, allow_template_mismatch)
    settings = options.load_for_measuring(
        named, preset, config, set_, runs, "analyze", evaluation=flags
    )
    request = AnalysisOptions.model_construct(
        base=base,
        problems=tuple(problem or ()),
        delta=delta,
        patterns=patterns,
        alpha=tuple(alpha) if alpha else None,
        survival=survival,
    )
    with Live() as live:
        document, folder = answer(Analysing.of(name, settings, named, request, labels), live)
        with live.doing("drawing and writing the report"):
            report = document.write(folder)
    show_report(report, json)


def _list(json: bool) -> None:
    """List the analyses."""
    from sage_cli.analysis.selection import ANALYSES

    if json:
        emit({"analyses": [{"name": kind.name, "says": kind.says} for kind in ANALYSES.values()]})
        return
    from rich.table import Table

    table = Table(show_header=False, box=None, padding=(0, 2, 0, 0))
    for analysis in ANALYSES.values():
        table.add_row(f"[bold]{analysis.name}[/]", analysis.says)
    console.print(table)
    console.print(
        "the base is the model of --base, by default the first run's initial policy", style="dim"
    )
