"""`sage suite list|plan|run|report`: the paper's tables and figures as commands."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.markup import escape
from rich.table import Table

from sage_cli.cli import options
from sage_cli.cli.app import new_app
from sage_cli.cli.console import console, emit
from sage_cli.cli.live import Live, doing
from sage_cli.counted import counted

if TYPE_CHECKING:
    from sage_cli.trials.suites.chapters import SuiteReport
    from sage_cli.trials.suites.declaration import Suite
    from sage_cli.trials.suites.plan import Overrides

app = new_app("Run a table or a figure of the paper, or your own study, and write its report.")

_SHOWN = {"measured": 2, "claims": 1}
"""The sections of a report that the terminal shows, and the number of their tables."""
_MOST_ROWS = 40
"""Rows of the longest table that the terminal shows."""

_Name = Annotated[
    str, typer.Argument(help="Name of a suite from `sage suite list`, or a YAML file.")
]
_Seeds = Annotated[
    int | None, typer.Option("--seeds", min=1, help="Number of training seeds per arm.")
]

Only = Annotated[
    str | None,
    typer.Option("--only", help="Comma-separated arms to use, for example base,grpo-branch."),
]


@app.command("list", epilog="Example: sage suite list")
def list_(json: options.Json = False) -> None:
    """List the suites that come with sage, and their arms."""
    from sage_cli.trials.suites.declaration import read_suite, suite_names

    suites = [read_suite(name) for name in suite_names()]
    if json:
        emit({"suites": [suite.model_dump(mode="json") for suite in suites]})
        return
    table = Table("suite", "title", "contains", box=None)
    for suite in suites:
        table.add_row(suite.name, escape(suite.title), _contents(suite))
    console.print(table)
    console.print("`sage suite plan NAME` lists a suite's arms and what they cost", style="dim")


def _contents(suite: Suite) -> str:
    """Return what a suite is made of: `7 arms`, `12 suites`, or its sweep."""
    if suite.includes:
        return counted(len(suite.includes), "suite")
    return counted(len(suite.methods), "arm") if suite.methods else f"sweep {suite.sweep}"


@app.command(epilog="Example: sage suite plan table1 --preset tiny")
def plan(
    name: _Name,
    seeds: _Seeds = None,
    only: Only = None,
    preset: options.Presets = None,
    set_: options.Sets = None,
    runs: options.RunRoot = None,
    json: options.Json = False,
) -> None:
    """Show every task with its command, its dependencies and its state."""
    show_suite_plan(name, overrides_of(preset, set_, seeds, runs, only), json)


@app.command(epilog="Example: sage suite run table1 --preset tiny --seeds 3")
def run(
    name: _Name,
    seeds: _Seeds = None,
    only: Only = None,
    executor: Annotated[
        str | None,
        typer.Option(help="Executor that runs the tasks: local (default), ray or slurm."),
    ] = None,
    workers: Annotated[int | None, typer.Option(help="Number of tasks at once.")] = None,
    address: Annotated[str | None, typer.Option(help="Address of the Ray cluster.")] = None,
    preset: options.Presets = None,
    set_: options.Sets = None,
    runs: options.RunRoot = None,
    dry_run: options.DryRun = False,
    json: options.Json = False,
) -> None:
    """Run every pending task and write the report; the same command resumes."""
    overrides = overrides_of(
        preset, set_, seeds, runs, only, name=executor, workers=workers, address=address
    )
    if dry_run:
        from sage_cli.trials.trial import Words

        flags = {"seeds": str(seeds)} if seeds else {}
        words = Words(tuple(preset or ()), flags, tuple(set_ or ())).all
        commands = shlex.join(("sage", "suite", "plan", name, *words))
        show_suite_plan(name, overrides, json, commands=commands)
        return
    from sage_cli.trials.suites.run import run_suite
    from sage_cli.view.page_file import write_page

    with Live() as live:
        written = run_suite(name, overrides, live, write_page)
    _show(written, json)


@app.command(epilog="Example: sage suite report table1 --preset tiny --seeds 3")
def report(
    name: _Name,
    seeds: _Seeds = None,
    only: Only = None,
    preset: options.Presets = None,
    set_: options.Sets = None,
    runs: options.RunRoot = None,
    json: options.Json = False,
) -> None:
    """Write the report from stored results without training or sampling."""
    from sage_cli.trials.suites.report import report_suite
    from sage_cli.view.page_file import write_page

    overrides = overrides_of(preset, set_, seeds, runs, only)
    with Live() as live:
        written = report_suite(name, overrides, live, write_page)
    _show(written, json)


def overrides_of(
    preset: list[str] | None,
    sets: list[str] | None,
    seeds: int | None,
    runs: Path | None,
    only: str | None,
    **executor: str | int | None,
) -> Overrides:
    """Return the overrides that options ask for, `executor` among the flags."""
    from sage_cli.settings.presets import DEFAULT_PRESET
    from sage_cli.trials.suites.plan import Overrides

    labels = tuple(word.strip() for word in only.split(",")) if only else ()
    flags: dict[str, dict[str, Any]] = {"executor": executor, "run": {"root": runs}}
    return Overrides(tuple(preset or (DEFAULT_PRESET,)), tuple(sets or ()), seeds, flags, labels)


def _show(written: SuiteReport, json: bool) -> None:
    """Print measurements and claims; the rest is on the page."""
    if json:
        emit({**written.report.as_json(), "page": str(written.page)})
        return
    from dataclasses import replace

    from sage_cli.reports.terminal import print_document

    for chapter in written.chapters:
        console.print(f"\n[bold]{escape(chapter.title)}[/]")
        for section in chapter.sections:
            tables = section.tables[: _SHOWN.get(section.name, 0)]
            short = tuple(table for table in tables if len(table.rows) <= _MOST_ROWS)
            print_document(replace(section, tables=short, notes=()), console)
            for table in tables:
                if len(table.rows) > _MOST_ROWS:
                    console.print(f"{escape(table.title)}: {len(table.rows)} rows, on the page")
    for name, value in written.facts.items():
        console.print(f"[dim]{escape(f'{name}: {value}')}[/]")
    console.print(f"page: [bold]{escape(str(written.page))}[/]", soft_wrap=True)


def show_suite_plan(
    name: str, overrides: Overrides, json: bool, *, commands: str | None = None
) -> None:
    """Print every task of a suite, its state, the commands that are left, and the cost.

    For a dry run, `commands` is what to type to see the commands, in the place of these.
    """
    from sage_cli.cli.libraries import ask_nobody
    from sage_cli.trials.suites.dry_run import plan_suite
    from sage_cli.trials.task import DONE, TO_DO

    ask_nobody()
    with doing(f"planning {name}"):
        planned = plan_suite(name, overrides)
    if json:
        emit(planned)
        return
    numbers = {task["name"]: number for number, task in enumerate(planned["tasks"], 1)}
    table = Table("", "task", "depends on", "state", box=None)
    for task in planned["tasks"]:
        needs = numbers.get(task["needs"] or "", "")
        number = numbers[task["name"]]
        state = "pending" if task["state"] == TO_DO else task["state"]
        table.add_row(str(number), escape(task["title"]), str(needs), state)
    console.print(f"[bold]{escape(planned['title'])}[/]", table, sep="\n")
    left = [task["command"] for task in planned["tasks"] if task["state"] != DONE]
    if left and commands is None:
        console.print("Remaining commands:")
        for command in left:  # a line each, however long, so that they can be copied
            console.print(command, markup=False, highlight=False, soft_wrap=True)
    if planned["cost"] != planned["left"]:
        console.print(f"Total: {planned['cost'].describe()}")
    console.print(f"Remaining: {planned['left'].describe()}")
    about = "" if planned["papers_models"] else " about the paper's models"
    for choice in planned["chosen"]:
        console.print(f"[dim]Assumption{about}: {escape(choice)}[/]")
    for note in planned["notes"]:
        console.print(f"[dim]Note: {escape(note)}[/]")
    console.print(f"Folder: [bold]{escape(planned['folder'])}[/]", soft_wrap=True)
    if commands is not None:
        each = f"; `{escape(commands)}` prints the command of each task" if left else ""
        console.print(f"dry run: nothing was run{each}", soft_wrap=True)
