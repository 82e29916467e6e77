"""`sage compare`: a difference with its interval, on the same problems."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from sage_cli.cli import completions
from sage_cli.cli.console import Notes, Out, show_report
from sage_cli.cli.live import Live
from sage_cli.cli.measure.measuring import evaluation_flags, load_for_measuring
from sage_cli.cli.options import (
    Benchmark,
    ConfigFile,
    Json,
    Ks,
    Limit,
    OtherTemplate,
    Presets,
    RunRoot,
    Samples,
    Seeds,
    Sets,
    load_config,
)
from sage_cli.errors import ConfigurationError

if TYPE_CHECKING:
    from sage_cli.evaluation.evaluate import Evaluation

HELP = "A run, model folder or file of counts; training seeds as A1,A2,A3; A=Label renames it."


def command(
    a: Annotated[str, typer.Argument(help=HELP, autocompletion=completions.runs)],
    b: Annotated[
        str,
        typer.Argument(
            help="What to compare it with, in the same way.", autocompletion=completions.runs
        ),
    ],
    benchmark: Benchmark = None,
    k: Ks = None,
    n: Samples = None,
    seeds: Seeds = None,
    limit: Limit = None,
    at: Annotated[
        str | None, typer.Option(help="pass@1: compare where both have the same pass@1.")
    ] = None,
    temperature: Annotated[
        str | None, typer.Option(help="With --at: temperatures to find it, as 1,1.1,1.2.")
    ] = None,
    allow_template_mismatch: OtherTemplate = False,
    preset: Presets = None,
    config: ConfigFile = None,
    set_: Sets = None,
    runs: RunRoot = None,
    out: Out = None,
    notes: Notes = False,
    json: Json = False,
) -> None:
    """Compare pass@k of two models, or of a method's training seeds with another's or a base."""
    from sage_cli.commands.measure.compare import compare
    from sage_cli.evaluation.evaluate import Evaluation
    from sage_cli.metrics.counts.counts_file import is_counts_file
    from sage_cli.models.policies.names import split_label

    pairs = [split_label(side) for side in (a, b)]
    sides = [[name.strip() for name in side.split(",")] for side, _ in pairs]
    models = [name for side in sides for name in side if not is_counts_file(name)]
    if models:
        flags = evaluation_flags(benchmark, k, n, seeds, limit, allow_template_mismatch)
        settings = load_for_measuring(
            models, preset, config, set_, runs, any_k=at is not None, evaluation=flags
        ).config
    else:
        settings = load_config(preset, config, set_, run={"root": runs}).config
    if at is not None or temperature is not None:
        _at_equal_accuracy(Evaluation.of_config(settings), pairs, at, temperature, out, json, notes)
        return
    with Live() as live:
        labels = (pairs[0][1], pairs[1][1])
        report = compare(Evaluation.of_config(settings), sides[0], sides[1], k, live, labels)
    show_report(report, json, out, notes=notes)


def _at_equal_accuracy(
    evaluation: Evaluation,
    sides: list[tuple[str, str | None]],
    at: str | None,
    temperature: str | None,
    out: Path | None,
    json: bool,
    notes: bool,
) -> None:
    """Compare two models where both have the same pass@1, over temperatures."""
    from sage_cli.commands.measure.passk import measure_over_temperatures, parse_temperatures
    from sage_cli.metrics.counts.counts_file import is_counts_file

    if at != "pass@1":
        raise ConfigurationError(
            f"--at {at}: models are compared at equal pass@1 alone"
            if at
            else "--temperature says where equal pass@1 is looked for, and --at is not there",
            "write --at pass@1",
        )
    odd = [name for name, _ in sides if "," in name or is_counts_file(name)]
    if odd:
        raise ConfigurationError(
            f"--at pass@1 lays one model beside another, and {odd[0]} is no model by itself",
            "name one run or model on each side",
        )
    labels = {name: label for name, label in sides if label}
    with Live() as live:
        report = measure_over_temperatures(
            evaluation,
            [name for name, _ in sides],
            parse_temperatures(temperature) if temperature else (),
            live,
            labels,
        )
    show_report(report, json, out, notes=notes)
