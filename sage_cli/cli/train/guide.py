"""`sage guide show`: what a guide does to a run's completions."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from sage_cli.cli import completions
from sage_cli.cli.group import new_app
from sage_cli.cli.measure.measuring import load_for_measuring
from sage_cli.cli.options import (
    Benchmark,
    ConfigFile,
    Json,
    OtherTemplate,
    Presets,
    Rho,
    RunRoot,
    Sets,
    Tau,
)
from sage_cli.cli.terminal.console import console, emit
from sage_cli.cli.terminal.live import Live

if TYPE_CHECKING:
    from sage_cli.config.schema import SageConfig
    from sage_cli.reports.token_report import TokenReport

app = new_app("Report what a guide does to tokens.")


@app.callback()
def _group() -> None:
    """Report what a guide does to tokens."""


@app.command()
def show(
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
    """Report completions token by token, coloured by q and entropy, with numbers or as a page."""
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
            from sage_cli.commands.train.token_report import token_report
        report = token_report(settings, run, live, notes)
    if html is not None:
        from sage_cli.commands.train.token_report import write_page

        write_page(report, settings.run.root, html)
    if keep:
        from sage_cli.commands.train.token_report import store_with_run

        store_with_run(report, run, settings.run.root)
    if json:
        emit(report)
        return
    _print(report)
    if html is not None:
        console.print(f"page: [bold]{html}[/]", soft_wrap=True)


def _guide(own: SageConfig, run: str, asked: str | None) -> tuple[dict[str, Any], list[str]]:
    """The guide to show as settings of `guide`: asked for, the run's own, or branch."""
    name = asked or (own.guide.name if own.guide.name != "none" else "branch")
    if name == own.guide.name:
        return {}, []  # as it is stored: whose package is missing is named when it is made
    whose = "the preset's" if own.guides.get(name) else "the paper's"
    why = "" if asked else f"{run} has no guide: "
    return {"name": name}, [f"{why}{name} with {whose} values, where not set otherwise"]


def _print(report: TokenReport) -> None:
    from rich.markup import escape

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
