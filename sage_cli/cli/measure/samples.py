"""`sage samples show|tokens|import`: completions in the terminal, whole or token by token."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.markup import escape
from rich.text import Text

from sage_cli.cli import completions
from sage_cli.cli.console import console, emit, visible
from sage_cli.cli.group import new_app
from sage_cli.cli.live import Live, doing
from sage_cli.cli.measure.measuring import load_for_measuring
from sage_cli.cli.options import (
    Benchmark,
    ConfigFile,
    DryRun,
    Json,
    OtherTemplate,
    Presets,
    Rho,
    RunRoot,
    Sets,
    Tau,
)
from sage_cli.errors import ConfigurationError

if TYPE_CHECKING:
    from sage_cli.config.schema import SageConfig
    from sage_cli.reports.token_report import TokenReport
    from sage_cli.view.runs_view import GuideView

app = new_app("Read completions, whole or token by token; import those of another program.")


@app.command()
def show(
    run: Annotated[
        str,
        typer.Argument(
            help="A run, RUN@step, a model folder or ORG/MODEL.", autocompletion=completions.runs
        ),
    ],
    problem: Annotated[str | None, typer.Option(help="A prefix of a problem's id.")] = None,
    grade: Annotated[
        str | None, typer.Option(help="right, wrong, unparseable, timeout or error.")
    ] = None,
    training: Annotated[
        bool, typer.Option("--training", help="What RUN's own training sampled.")
    ] = False,
    step: Annotated[
        int | None, typer.Option(min=1, help="With --training: of this step alone.")
    ] = None,
    limit: Annotated[int, typer.Option(min=1, help="How many completions.")] = 8,
    benchmark: Benchmark = None,
    preset: Presets = None,
    config: ConfigFile = None,
    set_: Sets = None,
    runs: RunRoot = None,
    json: Json = False,
) -> None:
    """Show stored completions with their problems and grades; nothing is sampled or graded.

    `--json` has `samples` as {"problem": {"id": ..., "question": ..., "gold": ...}, "completion":
    {"text": ..., "tokens": 12, ...}, "status": "right", "extracted": "4"}.
    """
    evaluation = {"benchmark": benchmark}
    if step is not None and not training:
        raise ConfigurationError("--step is of a training", "add --training")
    settings = load_for_measuring([run], preset, config, set_, runs, evaluation=evaluation).config
    if training:
        _show_training(settings, run, problem, grade, step, limit, json=json)
        return
    from sage_cli.commands.measure.samples import samples_show
    from sage_cli.evaluation.evaluate import Evaluation

    with doing(f"looking for stored completions of {run}"):
        found = samples_show(Evaluation.of_config(settings), run, problem, grade, limit)
    if json:
        emit({"samples": found})
        return
    for one in found:
        colour = "green" if one.status == "right" else "red"
        answer = "no answer" if one.extracted is None else f"answer {one.extracted}"
        told = visible(f"{answer}, gold {one.problem.gold}")
        head = f"[{colour}]{one.status}[/]  {escape(told)}"
        where = f"problem {one.problem.id}, seed {one.seed}, sample {one.completion.index}"
        ended = ", truncated" if one.completion.finish_reason == "length" else ""
        console.print(f"\n{head}  [dim]{escape(where)}{ended}[/]")
        console.print(Text(visible(one.problem.question), style="bold"), soft_wrap=True)
        console.print(Text(visible(one.completion.text)), soft_wrap=True)


@app.command()
def tokens(
    run: Annotated[
        str,
        typer.Argument(
            help="A run, RUN@step, a model folder or ORG/MODEL.", autocompletion=completions.runs
        ),
    ],
    limit: Annotated[int, typer.Option(min=1, help="How many completions.")] = 4,
    guide: Annotated[
        str | None, typer.Option("--guide", help="Show this guide (default: the run's).")
    ] = None,
    tau: Tau = None,
    rho: Rho = None,
    html: Annotated[
        Path | None, typer.Option("--html", help="Also write a page to this file.")
    ] = None,
    keep: Annotated[
        bool, typer.Option("--keep", help="Keep the numbers with the run, for reports.")
    ] = False,
    benchmark: Benchmark = None,
    allow_template_mismatch: OtherTemplate = False,
    preset: Presets = None,
    config: ConfigFile = None,
    set_: Sets = None,
    runs: RunRoot = None,
    json: Json = False,
) -> None:
    """Report what a guide does to completions, token by token; --html writes it as a page."""
    evaluation = {
        "benchmark": benchmark,
        "limit": limit,
        "allow_template_mismatch": allow_template_mismatch or None,
    }
    asked = [text for text in set_ or [] if text.startswith(("prompt.", "sampling."))]
    own = load_for_measuring([run], preset, config, asked, runs).config
    chosen, notes = _guide(own, run, guide)
    settings = load_for_measuring(
        [run],
        preset,
        config,
        set_,
        runs,
        evaluation=evaluation,
        guide={**chosen, **{k: v for k, v in (("tau", tau), ("rho", rho)) if v is not None}},
        # only the guide is read, so any anchor that a guide can shape is valid
        anchor={"kl": "reverse", "beta": own.anchor.beta or 1.0},
    ).config
    with Live() as live:
        with live.doing("loading libraries"):
            from sage_cli.commands.measure.token_report import token_report
        report = token_report(settings, run, live, notes)
    if html is not None:
        from dataclasses import asdict

        from sage_cli.view.page_file import write_page

        view: GuideView = {"policy": report.policy, "report": asdict(report)}
        write_page(settings.run.root, html, "guide", report.policy, view)
    if keep:
        from sage_cli.commands.measure.token_report import store_with_run

        store_with_run(report, run, settings.run.root)
    if json:
        emit(report)
        return
    _print_tokens(report)
    if html is not None:
        console.print(f"page: [bold]{html}[/]", soft_wrap=True)


@app.command("import")
def import_(
    file: Annotated[Path, typer.Argument(help="The file that the other program wrote.")],
    name: Annotated[str, typer.Option("--as", help="What to call the samples, as a run's id.")],
    program: Annotated[
        str | None,
        typer.Option(
            "--from",
            help="jsonl, lm-eval, lighteval or inspect (default: detected).",
            autocompletion=completions.forms,
        ),
    ] = None,
    score: Annotated[
        str | None, typer.Option(help="Which of the program's scores is the verdict.")
    ] = None,
    runs: RunRoot = None,
    dry_run: DryRun = False,
    json: Json = False,
) -> None:
    """Store samples of another program; passk, compare, analyze and grade then take their name."""
    from sage_cli.commands.measure.samples import import_samples
    from sage_cli.settings.sections.records import default_root

    with Live() as live:
        root = runs or default_root()
        found = import_samples(root, file, name, program, score, live, write=not dry_run)
    if json:
        answer = {**found.as_json, "stored": not dry_run}
        emit(answer)
        return
    console.print(f"{escape(visible(str(file)))} is {found.form}", soft_wrap=True)
    for line in found.in_words:
        console.print(escape(visible(line)), soft_wrap=True)
    if dry_run:
        return
    there = " already" if found.was_there else ""
    console.print(
        f"[bold]{found.run.id}[/] is stored{there}: sage passk {found.run.id}", soft_wrap=True
    )


def _show_training(
    settings: SageConfig,
    name: str,
    problem: str | None,
    grade: str | None,
    step: int | None,
    limit: int,
    *,
    json: bool,
) -> None:
    from sage_cli.commands.measure.samples import training_show
    from sage_cli.store.runs.run import Runs

    with doing(f"reading the completions of {name}"):
        run = Runs(settings.run.root).find(name)
        found = training_show(run, problem, grade, step, limit)
    if json:
        emit({"completions": found})
        return
    for one in found:
        colour = "green" if one["grade"] == "right" else "red"
        weight = one["advantage"]
        told = f"gold {visible(one['gold'])}, " + (
            "replaced" if weight is None else f"advantage {weight:+.3f}"
        )
        where = f"step {one['step']}, problem {one['problem']}"
        console.print(f"\n[{colour}]{one['grade']}[/]  {escape(told)}  [dim]{escape(where)}[/]")
        console.print(Text(visible(one["prompt"]), style="bold"), soft_wrap=True)
        console.print(Text(visible(one["text"])), soft_wrap=True)


def _guide(own: SageConfig, run: str, asked: str | None) -> tuple[dict[str, Any], list[str]]:
    """The guide to show as settings of `guide`: asked for, the run's own, or branch."""
    name = asked or (own.guide.name if own.guide.name != "none" else "branch")
    if name == own.guide.name:
        return {}, []  # as it is stored: whose package is missing is named when it is made
    whose = "the preset's" if own.guides.get(name) else "the paper's"
    why = "" if asked else f"{run} has no guide: "
    return {"name": name}, [f"{why}{name} with {whose} values, where not set otherwise"]


def _print_tokens(report: TokenReport) -> None:
    from sage_cli.reports.token_report import completion_text, legend, strongest, to_rich

    for number, one in enumerate(report.completions, 1):
        colour = "green" if one.status == "right" else "red"
        grade = f"[{colour}]{one.status}[/], gold {escape(one.gold)}"
        console.print(f"\n[bold]{number}  {escape(one.question)}[/]  {grade}")
        console.print(completion_text(one, report))
        if found := strongest(one):
            console.print(f"[dim]shaped most: {escape(found)}[/]")
    coloured = console.color_system is not None and not console.no_color
    console.print("", legend(report, coloured=coloured), "", sep="\n")
    console.print(to_rich(report))
