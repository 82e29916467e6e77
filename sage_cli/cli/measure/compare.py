"""`sage compare`: a difference with its interval, on the same problems."""

from __future__ import annotations

from typing import Annotated

import typer

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
from sage_cli.cli.terminal.live import Live
from sage_cli.cli.terminal.reporting import Out, show_report

HELP = "A run, model folder or file of counts; training seeds as A1,A2,A3; A=Label renames it."


def command(
    a: Annotated[str, typer.Argument(help=HELP)],
    b: Annotated[str, typer.Argument(help="What to compare it with, in the same way.")],
    benchmark: Benchmark = None,
    k: Ks = None,
    n: Samples = None,
    seeds: Seeds = None,
    limit: Limit = None,
    allow_template_mismatch: OtherTemplate = False,
    preset: Presets = None,
    config: ConfigFile = None,
    set_: Sets = None,
    runs: RunRoot = None,
    out: Out = None,
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
        settings = load_for_measuring(models, preset, config, set_, runs, evaluation=flags).config
    else:
        settings = load_config(preset, config, set_, run={"root": runs}).config
    with Live() as live:
        labels = (pairs[0][1], pairs[1][1])
        report = compare(Evaluation.of_config(settings), sides[0], sides[1], k, live, labels)
    show_report(report, json, out)
