"""`sage analyze`: analyses of stored samples and training records."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer

from sage_cli.cli import completions
from sage_cli.cli.console import console, emit, show_plan, show_report
from sage_cli.cli.live import Live
from sage_cli.cli.measure.measuring import evaluation_flags, labelled_names, load_for_measuring
from sage_cli.cli.options import (
    Benchmark,
    ConfigFile,
    DryRun,
    Json,
    Limit,
    Names,
    OtherTemplate,
    Presets,
    RunRoot,
    Samples,
    Seeds,
    Sets,
)


def command(
    name: Annotated[
        str | None,
        typer.Argument(
            metavar="[NAME]",
            help="An analysis; without a name they are listed.",
            autocompletion=completions.analyses,
        ),
    ] = None,
    names: Names = None,
    base: Annotated[
        str | None,
        typer.Option(help="The base to compare with (default: what the first run grew from)."),
    ] = None,
    problem: Annotated[
        list[str] | None, typer.Option(help="Only problems whose id has this prefix.")
    ] = None,
    delta: Annotated[
        str | None,
        typer.Option(help="For support: thresholds on the share of right samples, as 0,0.01."),
    ] = None,
    patterns: Annotated[
        Path | None, typer.Option(help="For patterns: a YAML file of expressions.")
    ] = None,
    benchmark: Benchmark = None,
    n: Samples = None,
    seeds: Seeds = None,
    limit: Limit = None,
    allow_template_mismatch: OtherTemplate = False,
    preset: Presets = None,
    config: ConfigFile = None,
    set_: Sets = None,
    runs: RunRoot = None,
    dry_run: DryRun = False,
    json: Json = False,
) -> None:
    """Analyse what is stored of runs or models: patterns, support, diversity, dynamics, ..."""
    if name is None:
        _list(json)
        return
    from sage_cli.analysis.selection import Request
    from sage_cli.commands.measure.analyze import Analysing, analyze, plan

    named, labels = labelled_names(names or [])
    flags = evaluation_flags(benchmark, None, n, seeds, limit, allow_template_mismatch)
    settings = load_for_measuring(named, preset, config, set_, runs, evaluation=flags).config
    flags = {"--benchmark": benchmark, "--n": n, "--seeds": seeds, "--limit": limit}
    sampling = _words(
        {**flags, "--config": config, "--runs": runs}, {"--preset": preset, "--set": set_}
    )
    request = Request(base, tuple(problem or ()), delta, patterns, sampling)
    if dry_run:
        show_plan(lambda: plan(Analysing.of(name, settings, named, request)), json)
        return
    with Live() as live:
        report = analyze(Analysing.of(name, settings, named, request, labels), live)
    show_report(report, json)


def _list(json: bool) -> None:
    """List the analyses."""
    from sage_cli.analysis.registry import ANALYSES

    if json:
        answer = {"analyses": [{"name": one.name, "says": one.says} for one in ANALYSES.values()]}
        emit(answer)
        return
    from rich.table import Table

    table = Table(show_header=False, box=None, padding=(0, 2, 0, 0))
    for one in ANALYSES.values():
        table.add_row(f"[bold]{one.name}[/]", one.says)
    console.print(table)


def _words(flags: dict[str, object], repeated: dict[str, Sequence[str] | None]) -> tuple[str, ...]:
    """Return typed options as words, for a command that samples what this one needs."""
    typed = [(flag, str(value)) for flag, value in flags.items() if value is not None]
    typed += [(flag, value) for flag, values in repeated.items() for value in values or ()]
    return tuple(word for pair in typed for word in pair)
