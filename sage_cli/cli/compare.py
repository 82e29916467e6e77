"""`sage compare`: a difference with its interval, on the same problems."""

from __future__ import annotations

from typing import Annotated

import typer

from sage_cli.cli import options
from sage_cli.cli.live import Live
from sage_cli.cli.printing import ShowNotes, show_report
from sage_cli.errors import ConfigurationError
from sage_cli.evaluation.logs.registry import is_file, program_titles

HELP = (
    f"Run, model folder, or file (a log of {program_titles()}, samples or counts). A1,A2,A3 "
    "names the training seeds of a method, A@seeds all of them, and A=Label sets a label."
)


def command(
    a: Annotated[str, typer.Argument(help=HELP)],
    b: Annotated[str, typer.Argument(help="The other side of the comparison, in the same form.")],
    benchmark: options.BenchmarkNames = None,
    score: options.ScoreNames = None,
    fields: options.Fields = None,
    golds: options.Golds = None,
    drop_invalidated: options.DropInvalidated = False,
    k: options.Ks = None,
    n: options.Samples = None,
    seeds: options.Seeds = None,
    limit: options.Limit = None,
    grade: options.SecondJudge = None,
    guess: options.Guess = None,
    unpaired: Annotated[
        bool,
        typer.Option(
            "--unpaired",
            help="Use all runs of both sides, although some share their training seed.",
        ),
    ] = False,
    cluster: Annotated[
        str | None,
        typer.Option(
            help="Problems that belong together: the field of their rows that says so, or auto "
            "for questions that share eight words in a row, numbers masked."
        ),
    ] = None,
    statistic: Annotated[
        str,
        typer.Option(
            help="Statistic by which the sides are compared: pass (pass@k), pass-all (pass^k: all "
            "of k samples are correct), g-pass (G-Pass@k: at least half of them are) or maj "
            "(maj@k: the most frequent answer of k samples is correct)."
        ),
    ] = "pass",
    allow_template_mismatch: options.OtherTemplate = False,
    preset: options.Presets = None,
    config: options.ConfigFile = None,
    set_: options.Sets = None,
    runs: options.RunRoot = None,
    notes: ShowNotes = False,
    json: options.Json = False,
) -> None:
    """Compare pass@k of two models, or of two methods over their training seeds.

    Files are compared on their common problems, which have the same text, or the same ID and gold.
    """
    from sage_cli.evaluation.compare import compare, compare_files
    from sage_cli.evaluation.evaluate import Evaluation
    from sage_cli.models.policy import split_label

    pairs = [split_label(side) for side in (a, b)]
    sides = [options.with_training_seeds(side.split(","), preset, set_, runs) for side, _ in pairs]
    names, labels = [*sides[0], *sides[1]], (pairs[0][1], pairs[1][1])
    models = [name for name in names if not is_file(name)]
    flags = options.evaluation_flags(benchmark, k, n, seeds, limit, allow_template_mismatch)
    if len(models) < len(names):
        reading = options.file_reading(fields, golds, drop_invalidated)
        evaluation = None
        if models:  # measured as they are, and matched with the files by question
            if grade:
                raise ConfigurationError("--second-judge reads no files", "leave it out")
            settings = options.load_for_measuring(
                models, preset, config, set_, runs, "compare", evaluation=flags
            )
            evaluation = Evaluation(settings)
        else:
            options.are_files(
                names, benchmark=benchmark, n=n, seeds=seeds, limit=limit, second_judge=grade
            )
            settings = options.load_config(preset, config, set_, "compare FILE", run={"root": runs})
        with Live() as live:
            report = compare_files(
                settings,
                sides[0],
                sides[1],
                score or (),
                k,
                live,
                labels,
                cluster,
                reading,
                guess,
                evaluation,
                statistic,
            )
        show_report(report, json, notes=notes)
        return
    settings = options.load_for_measuring(
        names, preset, config, set_, runs, "compare", evaluation=flags
    )
    with Live() as live:
        report = compare(
            Evaluation(settings),
            sides[0],
            sides[1],
            live,
            labels,
            grade,
            unpaired=unpaired,
            cluster=cluster,
            guess=guess,
            statistic=statistic,
        )
    show_report(report, json, notes=notes)
