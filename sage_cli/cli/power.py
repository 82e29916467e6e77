"""`sage power`: the smallest difference that a design can detect."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated

import typer

from sage_cli.cli import options
from sage_cli.cli.live import Live
from sage_cli.cli.printing import show_report
from sage_cli.errors import ConfigurationError
from sage_cli.evaluation.logs.registry import is_file, program_titles


def command(
    names: Annotated[
        list[str] | None,
        typer.Argument(
            help=(
                f"Models to start from: logs of {program_titles()}, files of samples or counts, "
                "or runs and models with stored samples."
            )
        ),
    ] = None,
    problems: Annotated[
        str | None,
        typer.Option(
            help=(
                "Numbers of problems, for example 30,60,300 (default: the counted number, 2 and "
                "4 times as many)."
            )
        ),
    ] = None,
    samples: Annotated[
        str | None,
        typer.Option(help="Numbers n of samples per problem and seed (default: 64,256,1024)."),
    ] = None,
    seeds: Annotated[
        str, typer.Option(help="Numbers of evaluation seeds, for example 1,3,5.")
    ] = "1",
    training_seeds: Annotated[
        str | None,
        typer.Option(
            help=(
                "Numbers of training seeds of each of two methods, for example 2,4,8; needs "
                "`--from`."
            )
        ),
    ] = None,
    from_: Annotated[
        str | None,
        typer.Option(
            "--from",
            help=(
                "Training runs of one method, or of two, for example A1,A2,B1,B2 or "
                "A@seeds,B@seeds. How they differ says how much training seeds vary."
            ),
        ),
    ] = None,
    seed_deviation: Annotated[
        float | None,
        typer.Option(
            min=0,
            help=(
                "Standard deviation of pass@k between training seeds, for example 0.02, if "
                "`--from` names fewer than two runs of a method."
            ),
        ),
    ] = None,
    k: options.Ks = None,
    score: options.ScoreNames = None,
    fields: options.Fields = None,
    golds: options.Golds = None,
    drop_invalidated: options.DropInvalidated = False,
    benchmark: options.BenchmarkNames = None,
    preset: options.Presets = None,
    config: options.ConfigFile = None,
    set_: options.Sets = None,
    runs: options.RunRoot = None,
    json: options.Json = False,
) -> None:
    """Estimate the smallest difference of pass@k that problems, samples and seeds can detect.

    Seeds are evaluation seeds of two models or, with `--training-seeds`, training seeds of two
    methods.
    """
    from sage_cli.evaluation.evaluate import Evaluation
    from sage_cli.evaluation.power import power
    from sage_cli.evaluation.seed_power import power_over_seeds

    over_seeds = check_seed_options(training_seeds, from_, seed_deviation, names, samples, seeds)
    over_seeds = over_seeds and options.with_training_seeds(over_seeds, preset, set_, runs)
    names = over_seeds or names
    models = [name for name in names or () if not is_file(name)]
    if models or not names:
        flags = {"benchmark": benchmark}
        settings = options.load_for_measuring(
            models, preset, config, set_, runs, "power", evaluation=flags
        )
    else:
        options.are_files(names, benchmark=benchmark)
        settings = options.load_config(preset, config, set_, "power FILE", run={"root": runs})
    with Live() as live:
        if over_seeds:
            report = power_over_seeds(
                Evaluation(settings),
                over_seeds,
                live,
                training_seeds=str(training_seeds),
                deviation=seed_deviation,
                problems=problems,
                k=k,
                scores=score or (),
                reading=options.file_reading(fields, golds, drop_invalidated),
            )
            show_report(report, json)
            return
        report = power(
            Evaluation(settings),
            names or [],
            live,
            problems=problems,
            samples=samples,
            seeds=seeds,
            k=k,
            scores=score or (),
            reading=options.file_reading(fields, golds, drop_invalidated),
        )
    show_report(report, json)


def check_seed_options(
    training_seeds: str | None,
    from_: str | None,
    deviation: float | None,
    names: Sequence[str] | None,
    samples: str | None,
    seeds: str,
) -> list[str] | None:
    """Return the runs of `--from`; None for a question about two models.

    Raises ConfigurationError for options that don't go together.
    """
    if training_seeds is None:
        for option, value in (("--from", from_), ("--seed-deviation", deviation)):
            if value is not None:
                raise ConfigurationError(
                    f"{option} {value} is about training seeds, and --training-seeds is missing",
                    f"add --training-seeds 2,4,8, or leave out {option}",
                )
        return None
    if from_ is None:
        raise ConfigurationError(
            f"--training-seeds {training_seeds} needs runs that say how much training seeds vary",
            "name training runs of one or two methods: --from A1,A2,B1,B2",
        )
    beside = [("", " ".join(names or ())), ("--samples ", samples or "")]
    beside.append(("--seeds ", "" if seeds == "1" else seeds))
    if idle := [option + value for option, value in beside if value]:
        raise ConfigurationError(
            f"'{idle[0]}' isn't read with --training-seeds",
            "the runs of --from have their problems, samples and evaluation seeds; leave it out",
        )
    return [name.strip() for name in from_.split(",")]
