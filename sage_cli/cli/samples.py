"""`sage samples show|tokens|import`: completions in the terminal, whole or token by token."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.markup import escape
from rich.text import Text

from sage_cli.cli import options
from sage_cli.cli.app import new_app
from sage_cli.cli.console import console, emit, visible
from sage_cli.cli.live import Live, doing
from sage_cli.counted import counted
from sage_cli.errors import ConfigurationError

if TYPE_CHECKING:
    from sage_cli.config.schema import SageConfig
    from sage_cli.reports.token_report import TokenReport

app = new_app("Read completions, whole or token by token, or import those of another program.")


@app.command(epilog="Example: sage samples show rl-dapo-branch --grade wrong")
def show(
    run: Annotated[
        str,
        typer.Argument(help="Run, checkpoint (RUN@step), model folder, or Hub model (ORG/MODEL)."),
    ],
    problem: Annotated[
        str | None, typer.Option(help="Show only problems whose ID begins with this text.")
    ] = None,
    grade: Annotated[
        str | None,
        typer.Option(
            help=(
                "Show only completions with this grade: correct, wrong, unparseable, timeout or "
                "error."
            )
        ),
    ] = None,
    training: Annotated[
        bool,
        typer.Option(
            "--training", help="Show the completions that were sampled in training (rollouts)."
        ),
    ] = False,
    step: Annotated[
        int | None, typer.Option(min=1, help="With --training: show only this step.")
    ] = None,
    limit: Annotated[int, typer.Option(min=1, help="Number of completions to show.")] = 8,
    benchmark: options.BenchmarkNames = None,
    preset: options.Presets = None,
    config: options.ConfigFile = None,
    set_: options.Sets = None,
    runs: options.RunRoot = None,
    json: options.Json = False,
) -> None:
    """Show stored completions with their problems and grades, without sampling or grading.

    `--json` has `samples` as {"problem": {"id": ..., "question": ..., "gold": ...}, "completion":
    {"text": ..., "tokens": 12, ...}, "status": "right", "extracted": "4"}. The status "right" is
    what `--grade` calls correct; `--grade right` is read, too.
    """
    from sage_cli.evaluation.shown_samples import SOME_KEPT, samples_show, training_show
    from sage_cli.grading.grades import STATUSES, status_in_words
    from sage_cli.store.run import Runs

    if step is not None and not training:
        raise ConfigurationError(
            "--step selects a training step, and --training is missing", "add --training"
        )
    names = {status_in_words(status): status for status in STATUSES}
    grade = names.get(grade or "", grade)
    if grade is not None and grade not in STATUSES:
        raise ConfigurationError(
            f"there is no grade '{grade}'", f"valid grades: {', '.join(names)}"
        )
    flags = {"benchmark": benchmark}
    settings = options.load_for_measuring(
        [run], preset, config, set_, runs, "samples show", evaluation=flags
    )
    if training:
        with doing(f"reading the completions of {run}"):
            kept_by = Runs(settings.run.root).find(run)
            rows = training_show(kept_by, problem, grade, step, limit)
        if json:
            emit({"completions": rows})
            return
        for row in rows:
            notes = [f"gold {row['gold']}", *(["replaced"] if row["trained"] is False else [])]
            notes += [f"{name} {part:+.3g}" for name, part in (row["rewards"] or {}).items()]
            of_problem = "" if row["problem"] is None else f", problem {row['problem']}"
            about = f"step {row['step']}{of_problem}"
            _print(row["grade"], ", ".join(notes), about, row["prompt"], row["text"])
        if rows[0]["problem"] is None:
            console.print(f"\n[dim]{SOME_KEPT}[/]")
        return
    with doing(f"looking for stored completions of {run}"):
        samples = samples_show(settings, run, problem, grade, limit)
    if json:
        emit({"samples": samples})
        return
    for sample in samples:
        answer = "no answer" if sample.extracted is None else f"answer {sample.extracted}"
        told = f"{answer}, gold {sample.problem.gold}"
        about = f"problem {sample.problem.id}, seed {sample.seed}, sample {sample.completion.index}"
        about += ", truncated" if sample.completion.finish_reason == "length" else ""
        _print(sample.status, told, about, sample.problem.question, sample.completion.text)
    shown = {sample.problem.id for sample in samples}
    if len(samples) == limit:
        console.print(
            f"\n[dim]these are the first {counted(limit, 'completion')}, of "
            f"{counted(len(shown), 'problem')}: --limit N shows more, --problem ID those of a "
            "problem, and --grade wrong those that are wrong[/]"
        )


def _print(grade: str, told: str, about: str, question: str, completion: str) -> None:
    """Print a completion below its grade and its question."""
    from sage_cli.grading.grades import status_in_words

    colour = "green" if grade == "right" else "red"
    console.print(
        f"\n[{colour}]{status_in_words(grade)}[/]  {escape(visible(told))}  [dim]{escape(about)}[/]"
    )
    console.print(Text(visible(question), style="bold"), soft_wrap=True)
    console.print(Text(visible(completion)), soft_wrap=True)


@app.command(epilog="Example: sage samples tokens rl-dapo-branch --limit 2")
def tokens(
    run: Annotated[
        str,
        typer.Argument(help="Run, checkpoint (RUN@step), model folder, or Hub model (ORG/MODEL)."),
    ],
    limit: Annotated[int, typer.Option(min=1, help="Number of completions to show.")] = 4,
    guide: Annotated[
        str | None, typer.Option("--guide", help="Guide to show (default: the run's own).")
    ] = None,
    tau: options.Tau = None,
    rho: options.Rho = None,
    benchmark: options.BenchmarkNames = None,
    allow_template_mismatch: options.OtherTemplate = False,
    preset: options.Presets = None,
    config: options.ConfigFile = None,
    set_: options.Sets = None,
    runs: options.RunRoot = None,
    json: options.Json = False,
) -> None:
    """Show what a guide does to completions, token by token."""
    from sage_cli.analysis.tokens import token_report

    evaluation = {
        "benchmark": benchmark,
        "limit": limit,
        "allow_template_mismatch": allow_template_mismatch or None,
    }
    asked = [text for text in set_ or [] if text.startswith(("prompt.", "sampling."))]
    own = options.load_for_measuring([run], preset, config, asked, runs)
    named = " and ".join([*(preset or []), *([str(config)] if config else [])])
    chosen, notes = _guide(own, f"{named} has" if named else f"{run} was trained with", guide)
    settings = options.load_for_measuring(
        [run],
        preset,
        config,
        set_,
        runs,
        "samples tokens",
        evaluation=evaluation,
        guide={**chosen, **{k: v for k, v in (("tau", tau), ("rho", rho)) if v is not None}},
        # only the guide is read, so any anchor that a guide can shape is valid
        anchor={"kl": "reverse", "beta": own.anchor.beta or 1.0},
    )
    with Live() as live:
        with live.doing("loading libraries"):
            pass
        report = token_report(settings, run, live, notes)
    if json:
        emit(report)
        return
    _print_tokens(report)


@app.command("import", epilog="Example: sage samples import theirs.jsonl --as theirs")
def import_(
    file: Annotated[Path, typer.Argument(help="File that the other program wrote.")],
    name: Annotated[
        str,
        typer.Option(
            "--as", help="Name for the samples, which other commands accept like a run's ID."
        ),
    ],
    score: Annotated[
        str | None, typer.Option(help="Score in the file that marks a sample as correct.")
    ] = None,
    fields: options.Fields = None,
    golds: options.Golds = None,
    drop_invalidated: options.DropInvalidated = False,
    runs: options.RunRoot = None,
    dry_run: options.DryRun = False,
    json: options.Json = False,
) -> None:
    """Import samples of another program, so that passk, compare, analyze and grade can use them."""
    from sage_cli.evaluation.imported import import_samples
    from sage_cli.settings.run import default_root

    with Live() as live:
        root = runs or default_root()
        reading = options.file_reading(fields, golds, drop_invalidated, score)
        imported = import_samples(root, file, name, reading, live, write=not dry_run)
    if json:
        emit({**imported.as_json, "stored": not dry_run})
        return
    console.print(f"{escape(visible(str(file)))}: format {imported.file.program}", soft_wrap=True)
    for line in imported.in_words:
        console.print(escape(visible(line)), soft_wrap=True)
    if dry_run:
        return
    state = " already" if imported.was_there else ""
    console.print(
        f"[bold]{imported.run.id}[/] is stored{state}: sage passk {imported.run.id}", soft_wrap=True
    )


def _guide(own: SageConfig, source: str, asked: str | None) -> tuple[dict[str, Any], list[str]]:
    """The guide to show as settings of `guide`: asked for, that of `source` in `own`, or branch."""
    name = asked or (own.guide.name if own.guide.name != "none" else "branch")
    if name == own.guide.name:
        return {}, []  # as it is stored: whose package is missing is named when it is made
    whose = "the preset's" if own.guides.get(name) else "the paper's"
    why = "" if asked else f"{source} no guide, so "
    return {"name": name}, [f"{why}{name} is shown with {whose} values unless you set others"]


def _print_tokens(report: TokenReport) -> None:
    from sage_cli.grading.grades import status_in_words
    from sage_cli.reports.token_report import LEGEND, completion_text, strongest, to_rich

    for number, completion in enumerate(report.completions, 1):
        colour = "green" if completion.status == "right" else "red"
        grade = f"[{colour}]{status_in_words(completion.status)}[/], gold {escape(completion.gold)}"
        console.print(f"\n[bold]{number}  {escape(completion.question)}[/]  {grade}")
        console.print(completion_text(completion))
        if shaped := strongest(completion):
            console.print(f"[dim]q furthest from 1: {escape(shaped)}[/]")
    if console.color_system is not None and not console.no_color:
        console.print("", LEGEND, "", sep="\n")
    console.print(to_rich(report))
