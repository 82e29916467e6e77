"""`sage passk`: pass@k curves."""

from __future__ import annotations

from typing import Annotated

import typer

from sage_cli.cli import options
from sage_cli.cli.live import Live, doing
from sage_cli.cli.options import check_gpu_option
from sage_cli.cli.printing import show_plan, show_report
from sage_cli.errors import ConfigurationError
from sage_cli.evaluation.logs.registry import program_titles


def command(
    names: Annotated[
        list[str] | None,
        typer.Argument(
            help=(
                "Runs, checkpoints (RUN@step, RUN@all), model folders or Hub models "
                f"(ORG/MODEL). Or only files: logs of {program_titles()}, and samples or counts "
                "in JSON, JSONL or CSV."
            )
        ),
    ] = None,
    benchmark: options.BenchmarkNames = None,
    k: options.Ks = None,
    n: options.Samples = None,
    seeds: options.Seeds = None,
    limit: options.Limit = None,
    score: options.ScoreNames = None,
    fields: options.Fields = None,
    golds: options.Golds = None,
    drop_invalidated: options.DropInvalidated = False,
    temperature: Annotated[
        str | None,
        typer.Option(
            help="Comma-separated sampling temperatures to measure at, for example 0.8,1,1.2."
        ),
    ] = None,
    grade: options.SecondJudge = None,
    guess: options.Guess = None,
    allow_template_mismatch: options.OtherTemplate = False,
    compat: options.Compat = None,
    preset: options.Presets = None,
    config: options.ConfigFile = None,
    set_: options.Sets = None,
    runs: options.RunRoot = None,
    dry_run: options.DryRun = False,
    gpu: options.Gpu = None,
    json: options.Json = False,
) -> None:
    """Measure pass@k of runs, models or files (default: the latest run).

    `--json` has `k`, a list, and `curves` as {"policy": "rl-grpo-0123abcd", "benchmark": "aime24",
    "pass@k": [0.1, 0.15], "low": [0.06, 0.1], "high": [0.15, 0.2], ...}, a value for each k.
    """
    from sage_cli.evaluation.counted_files import passk_of_files, read_counted_files
    from sage_cli.evaluation.evaluate import Evaluation
    from sage_cli.evaluation.file_judge import FileJudge
    from sage_cli.evaluation.measure import (
        NamedModels,
        measure_over_temperatures,
        measure_passk,
        parse_temperatures,
    )
    from sage_cli.models.measured_settings import measured_names
    from sage_cli.models.stages import plan_of

    check_gpu_option(gpu, dry_run)
    if guess and (temperature or dry_run):
        raise ConfigurationError(
            f"--guess {guess} is shown in the table of pass@k at one temperature, and has no plan",
            "leave out --guess, or --temperature and --dry-run",
        )
    if grade and (temperature or dry_run):
        raise ConfigurationError(
            "--second-judge reads stored samples at one temperature, and has no plan",
            "leave out --temperature and --dry-run",
        )
    names, labels = options.labelled_names(measured_names(names, set_, k))
    if options.are_files(
        names,
        benchmark=benchmark,
        n=n,
        seeds=seeds,
        limit=limit,
        temperature=temperature,
        dry_run=dry_run,
        second_judge=grade,
        guess=guess,
    ):
        settings = options.load_config(preset, config, set_, "passk FILE", run={"root": runs})
        reading = options.file_reading(fields, golds, drop_invalidated)
        with Live() as live, live.doing("reading files"):
            files = read_counted_files(names, score or (), reading, FileJudge(settings, live))
        with doing("computing curves and writing the report"):
            report = passk_of_files(files, labels, k, settings.evaluation, settings.run.root)
        show_report(report, json)
        return
    flags = options.evaluation_flags(benchmark, k, n, seeds, limit, allow_template_mismatch, compat)
    settings = options.load_for_measuring(
        names, preset, config, set_, runs, "passk", evaluation=flags
    )
    models = NamedModels(Evaluation(settings), names, labels)
    temperatures = parse_temperatures(temperature) if temperature is not None else ()
    if dry_run:
        show_plan(lambda: plan_of(models.stages_at(temperatures), gpu), json, models.refusal)
        return
    with Live() as live:
        report = (
            measure_over_temperatures(models, temperatures, live)
            if temperatures
            else measure_passk(models, live, grade, guess)
        )
    show_report(report, json)
