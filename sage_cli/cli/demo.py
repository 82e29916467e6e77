"""`sage demo`: the paper's effect in miniature, in a few minutes on a laptop."""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING, Annotated

import typer
from rich.markup import escape

from sage_cli.cli.console import console, emit
from sage_cli.cli.live import Live
from sage_cli.cli.options import DryRun, Json, Sets
from sage_cli.cli.suite import show_suite_plan

if TYPE_CHECKING:
    from sage_cli.trials.suites.chapters import SuiteReport
    from sage_cli.trials.suites.plan import PlannedSuite


FromScratch = Annotated[
    bool,
    typer.Option("--from-scratch", help="Train the initial policy, too, by SFT (two minutes)."),
]


def command(
    from_scratch: FromScratch = False,
    set_: Sets = None,
    dry_run: DryRun = False,
    json: Json = False,
) -> None:
    """Train with DAPO without a KL term and with the branch guide, and compare pass@k."""
    from sage_cli.trials.suites.plan import Overrides, prepare_suite
    from sage_cli.trials.suites.run import run_suite
    from sage_cli.view.page_file import write_page

    sets = (*(set_ or ()), *(["sft.shipped=false"] if from_scratch else []))
    overrides = Overrides(("tiny",), sets)
    if dry_run:
        show_suite_plan("demo", overrides, json)
        return
    with Live() as live:
        written = run_suite("demo", overrides, live, write_page)
    plan = prepare_suite("demo", overrides)
    if json:
        runs = [replicate.policy.run for replicate in plan.parts[-1].replicates]
        folders = [str(run.folder) for run in runs if run is not None]
        emit({"runs": folders, **written.report.as_json(), "page": str(written.page)})
        return
    _show(written, plan)


def _show(written: SuiteReport, plan: PlannedSuite) -> None:
    """Print pass@k, what follows from it, where the picture is, and what to type next."""
    from sage_cli.reports.terminal import print_table

    (chapter,) = written.chapters
    sections = {section.name: section for section in chapter.sections}
    for table in sections["passk"].tables if "passk" in sections else ():
        print_table(table, console)
    sets = [word for setting in plan.overrides.sets for word in ("--set", setting)]
    root = ["--runs", str(plan.config.run.root)] if sets else []
    commands = {
        "show curves, problems and samples in a browser": ["view", plan.folder.name, *root],
        "train three seeds of each method": ["suite", "run", "demo", "--seeds", "3", *sets],
        "begin a study of your own": ["init", "mystudy"],
    }
    lines = [
        f"[dim]{escape(written.facts.get('measured', ''))}[/]",
        "\n[bold]How the two policies compare[/]",
        *(f"  {escape(claim['sentence'])}" for claim in sections["claims"].data["claims"]),
        "  [dim]Each method was trained once, so this compares two policies, not two methods: "
        "another training seed may give another result.[/]",
    ]
    if lost := written.facts.get("incomplete"):
        lines.append(f"[yellow]not everything was measured[/]: {escape(lost)}")
    picture = written.report.folder / "passk.png"
    lines += [f"\nFigure: [bold]{escape(str(picture))}[/]", "\n[bold]What to type next[/]"]
    for why, words in commands.items():
        lines.append(f"  {escape(shlex.join(['sage', *words]))}  [dim]# {why}[/]")
    for line in lines:
        console.print(line, soft_wrap=True, highlight=False)
