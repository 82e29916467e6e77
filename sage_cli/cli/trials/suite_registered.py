"""`sage suite register|publish|verify`: a study registered beforehand, and its page checked."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.markup import escape
from rich.table import Table

from sage_cli.cli.options import Json, Presets, RunRoot, Sets
from sage_cli.cli.terminal.console import console, emit
from sage_cli.cli.terminal.live import Live, doing
from sage_cli.cli.terminal.surroundings import ask_nobody
from sage_cli.cli.trials.suite import (
    Name,
    Only,
    Published,
    Registered,
    Seeds,
    Starts,
    app,
    overrides_of,
)
from sage_cli.errors import EXIT_OTHER

__all__ = ["app"]


@app.command()
def register(
    name: Name,
    out: Annotated[
        Path | None, typer.Option(help="The file; without it NAME.registration.json beside NAME.")
    ] = None,
    late: Annotated[
        bool, typer.Option("--late", help="Register even after runs have begun; reports say so.")
    ] = False,
    power_note: Annotated[
        str | None, typer.Option(help="The planned power, in your words.")
    ] = None,
    deviation: Annotated[
        float | None,
        typer.Option(min=0, help="Expected SD of differences between initial policies."),
    ] = None,
    seeds: Seeds = None,
    only: Only = None,
    initial_policies: Starts = None,
    preset: Presets = None,
    set_: Sets = None,
    runs: RunRoot = None,
    json: Json = False,
) -> None:
    """Write down all that decides a suite before its first run."""
    ask_nobody()
    from sage_cli.commands.trials.suite_report import register_suite

    overrides = overrides_of(preset, set_, seeds, runs, only, initial_policies)
    with doing(f"registering {name}"):
        file, found = register_suite(name, overrides, out, late, power_note, deviation)
    if json:
        emit({**found, "file": str(file)})
        return
    console.print(f"registered {found['registered']}, hash [bold]{found['hash'][:16]}[/]")
    if found["late"]:
        console.print(f"late: {len(found['late'])} runs had begun")
    if (detectable := found["power"]["detectable"]) is not None:
        policies = found["power"]["initial_policies"]
        console.print(f"{policies} initial policies detect {detectable:.4f} in four of five cases")
    console.print(f"registration: [bold]{escape(str(file))}[/]", soft_wrap=True)
    console.print("commit this file before the first run")


@app.command()
def publish(
    name: Name,
    out: Annotated[Path, typer.Option(help="The folder of the page, its counts and chances.")],
    seeds: Seeds = None,
    only: Only = None,
    initial_policies: Starts = None,
    preset: Presets = None,
    set_: Sets = None,
    runs: RunRoot = None,
    registration: Registered = None,
    published: Published = None,
    json: Json = False,
) -> None:
    """Write a suite's page with its counts and chances, for `verify` without the runs."""
    from sage_cli.commands.trials.suite_report import publish_suite

    overrides = overrides_of(preset, set_, seeds, runs, only, initial_policies)
    with Live() as live:
        files = publish_suite(name, overrides, out, live, registration, published)
    if json:
        emit({"files": [str(file) for file in files]})
        return
    for file in files:
        console.print(f"{escape(str(file))}  {file.stat().st_size / 1e6:.1f} MB", soft_wrap=True)


@app.command()
def verify(
    page: Annotated[Path, typer.Argument(help="The NAME.json of a suite's report.")],
    registration: Annotated[
        Path | None, typer.Option(help="The registration; without it the one beside the page.")
    ] = None,
    runs: RunRoot = None,
    json: Json = False,
) -> None:
    """Check a page against its registration and its runs or published counts.

    Exit with 1 if anything differs.
    """
    ask_nobody()
    from sage_cli.trials.suites.registered.verify import verify as verified

    with doing(f"checking {page}"):
        found = verified(page, registration, runs)
    differing = found["differences"]
    if json:
        emit(found)
    else:
        table = Table("kind", "what differs", "registered or on the page", "now", box=None)
        for one in differing:
            table.add_row(*(escape(one[key]) for key in ("kind", "name", "registered", "now")))
        if differing:
            console.print(table)
        console.print(f"registration: {escape(found['registration'])}", soft_wrap=True)
        console.print(f"{found['numbers']} values computed again from: {found['source']}")
        if found["unchecked"]:
            console.print(f"not checked: {escape(', '.join(found['unchecked']))}")
        count = len(differing)
        console.print(f"{count} difference{'' if count == 1 else 's'}")
    if differing:
        raise typer.Exit(EXIT_OTHER)
