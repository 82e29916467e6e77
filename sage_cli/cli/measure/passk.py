"""`sage passk`: pass@k curves."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from sage_cli.cli import options
from sage_cli.cli.console import Out, refuse_gpu, show_plan, show_report
from sage_cli.cli.live import Live, doing
from sage_cli.cli.measure.measuring import (
    evaluation_flags,
    labelled_names,
    load_for_measuring,
    may_train,
    measured_names,
)
from sage_cli.planning.dry_run import plan_of

if TYPE_CHECKING:
    from sage_cli.commands.measure.passk import Measuring


def command(
    names: options.Names = None,
    benchmark: options.Benchmark = None,
    k: options.Ks = None,
    n: options.Samples = None,
    seeds: options.Seeds = None,
    limit: options.Limit = None,
    from_: Annotated[
        list[Path] | None,
        typer.Option("--from", help="Counts or samples of your own: JSON, JSONL or CSV."),
    ] = None,
    temperature: Annotated[
        str | None, typer.Option(help="Measure at each of these, as 0.8,1,1.2.")
    ] = None,
    allow_template_mismatch: options.OtherTemplate = False,
    compat: options.Compat = None,
    preset: options.Presets = None,
    config: options.ConfigFile = None,
    set_: options.Sets = None,
    runs: options.RunRoot = None,
    train: options.Train = None,
    dry_run: options.DryRun = False,
    gpu: options.Gpu = None,
    out: Out = None,
    json: options.Json = False,
) -> None:
    """Measure pass@k of runs or models; with none named, of the latest run.

    `--json` has `k`, a list, and `curves` as {"policy": "rl-grpo-0123abcd", "benchmark": "aime24",
    "pass@k": [0.1, 0.15], "low": [0.06, 0.1], "high": [0.15, 0.2], ...}, a value for each k.
    """
    refuse_gpu(gpu, dry_run)
    if from_:
        _show_files(from_, k, runs, set_, out, json)
        return
    names, labels = labelled_names(measured_names(names, set_, k))
    flags = evaluation_flags(benchmark, k, n, seeds, limit, allow_template_mismatch)
    flags |= {"compat": compat}
    settings = load_for_measuring(names, preset, config, set_, runs, evaluation=flags).config
    from sage_cli.commands.measure.passk import Measuring, passk

    measuring = Measuring.of(settings, names, labels)
    if dry_run:
        show_plan(lambda: plan_of(measuring.stages, gpu), json)
        return
    if temperature is not None:
        _show_temperatures(measuring, temperature, out, json)
        return
    trained = may_train(train, names, settings.run.root, chosen=bool(preset or config))
    with Live() as live:
        report = passk(measuring, live, train=trained)
    show_report(report, json, out)


def _show_temperatures(measuring: Measuring, typed: str, out: Path | None, json: bool) -> None:
    """Curves over temperatures, and differences from the last model at equal pass@1."""
    from sage_cli.commands.measure.passk import measure_over_temperatures, parse_temperatures

    temperatures = parse_temperatures(typed)
    with Live() as live:
        report = measure_over_temperatures(
            measuring.evaluation, measuring.names, temperatures, live, measuring.labels
        )
    show_report(report, json, out)


def _show_files(
    files: list[Path],
    k: str | None,
    runs: Path | None,
    sets: list[str] | None,
    out: Path | None,
    json: bool,
) -> None:
    """Curves of files of counts: only the settings of `evaluation` matter."""
    settings = options.load_config(None, None, sets, run={"root": runs}).config
    from sage_cli.commands.measure.passk import passk_of_files

    with doing("computing curves and writing the report"):
        report = passk_of_files(files, k, settings.evaluation, settings.run.root)
    show_report(report, json, out)
