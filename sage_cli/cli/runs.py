"""`sage runs`: list, show and remove runs."""

from __future__ import annotations

from itertools import chain
from json import dumps
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.markup import escape
from rich.table import Column, Table

from sage_cli.cli.app import new_app
from sage_cli.cli.console import console, emit, name_column
from sage_cli.cli.options import Json, RunName, RunRoot

if TYPE_CHECKING:
    from sage_cli.store.run import Run, Runs

app = new_app("List, show and remove runs.")
FIRST = ("status", "kind")
LONGEST = 30
"""Characters of a setting with its value that stay on one line."""
PARENT_WIDTH = 14
"""Characters of the parent's ID that a list shows: what differs needs the room."""
_SHOWN = ("parent", "started", "seconds", "seed", "host", "commit", "command", "reason")


def _runs(root: Path | None) -> Runs:
    from sage_cli.settings.run import default_root
    from sage_cli.store.run import Runs

    return Runs(root or default_root())


@app.command("list", epilog="Example: sage runs list --columns guide.tau,rl.seed,pass@1")
def list_(
    runs: RunRoot = None,
    columns: Annotated[
        str | None,
        typer.Option(
            help="Comma-separated settings and results, for example guide.tau,pass@1,reward."
        ),
    ] = None,
    where: Annotated[
        list[str] | None, typer.Option(help="Show only runs with this setting=value; repeatable.")
    ] = None,
    json: Json = False,
) -> None:
    """List all runs, oldest first; runs that differ only in their seeds are grouped."""
    from sage_cli.store.run_facts import RunFacts, expanded, replicated, selected, telling_apart

    store = _runs(runs)
    listed = store.all()
    all_facts = [RunFacts.listed(run) for run in listed]
    if columns or where:
        fitting = selected(all_facts, where or ())
        names = ["id", *expanded(columns or "kind,status,parent", fitting or all_facts)]
        rows = [{name: run.value(name) for name in names} for run in fitting]
        if json:
            emit({"columns": names, "runs": rows})
            return
        table = Table(name_column("run", (str(row["id"]) for row in rows)), *names[1:], box=None)
        for row in rows:
            table.add_row(*(escape(_cell(row[name])) for name in names))
        console.print(table if rows else "no run has these settings")
        return
    if json:
        emit({"runs": [_listed(run) for run in listed]})
        return
    names = telling_apart(all_facts)
    ids = name_column("run", (run.id for run in listed))
    ordered = list(chain.from_iterable(replicated(all_facts)))
    settings = {
        facts.run.id: [
            f"{name}={_cell(value)}" for name in names if (value := facts.setting(name)) is not None
        ]
        for facts in ordered
    }
    longest = max((len(word) for words in settings.values() for word in words), default=0)
    differing = Column("settings that differ", overflow="fold", min_width=min(longest, LONGEST))
    parents = dict.fromkeys(filter(None, (facts.about["parent"] for facts in ordered)))
    # what every row says is said once, below the table, so that the others have its room
    parent = Column("parent", no_wrap=True, max_width=PARENT_WIDTH)
    table = Table(ids, "status", "steps", "time", box=None)
    table.columns += [differing] * bool(longest) + [parent] * (len(parents) > 1)
    for facts in ordered:
        run = facts.run
        cells = [
            run.id,
            facts.about["status"],
            str(int(run.metrics.latest(compared=True).get("step", 0))),
            f"{facts.about['seconds'] or 0:,.0f} s",
        ]
        cells += [escape(" ".join(settings[run.id]))] if longest else []
        cells += [escape(str(facts.about["parent"] or ""))] if len(parents) > 1 else []
        table.add_row(*cells)
    if not listed:
        console.print(f"{store.root.resolve()} contains no runs yet; `sage rl` trains one")
        return
    console.print(table)
    if len(parents) == 1:
        console.print(
            f"every run that has a parent started from {escape(str(*parents))}", style="dim"
        )
    console.print(
        "`sage runs show RUN` shows one; for other columns: --columns guide.tau,rl.seed,pass@1",
        style="dim",
    )


def _listed(run: Run) -> dict[str, Any]:
    """Return a run's manifest with its true status; a corrupt one's as far as it can be read."""
    state = run.read()
    facts = {**state.manifest, "id": run.id, "status": state.status}
    if state.corruption is not None:
        facts["reason"] = state.corruption.cause
    return facts


def _cell(value: Any) -> str:
    """Return a value as a cell: empty for None, numbers with four digits."""
    if value is None:
        return ""
    if isinstance(value, float):
        return f"{value:.4g}"
    return dumps(value) if isinstance(value, list | dict | bool) else str(value)


@app.command(epilog="Example: sage runs show rl-dapo-branch")
def show(name: RunName, runs: RunRoot = None, json: Json = False) -> None:
    """Show a run's settings, pass@k, manifest, speed and last metrics."""
    from sage_cli.models.facts import other_release
    from sage_cli.store.evaluations import evaluation_figures
    from sage_cli.store.run import SEALED
    from sage_cli.store.run_facts import RunFacts, last_and_validated, speed_figures

    run = _runs(runs).find(name)
    run.require_whole()
    method = RunFacts.from_run(run).method
    last, validated, evaluations = *last_and_validated(run), evaluation_figures(run)
    speed, changed = speed_figures(run.metrics.read()), run.changed(*SEALED)
    if json:
        emit(
            {
                "manifest": {key: v for key, v in run.read_manifest().items() if key != "files"},
                "method": method,
                "last": last,
                "validated": validated,
                "evaluations": evaluations,
                "speed": speed,
                "changed": changed,
                "folder": str(run.folder),
            }
        )
        return
    manifest = run.read_manifest()
    first, about = ({key: manifest.get(key) for key in keys} for keys in (FIRST, _SHOWN))
    first["files changed since the end"] = ", ".join(changed) or None
    first["can be resumed by"] = other_release(run)
    about["folder"] = str(run.folder)
    origin = _imported(manifest.get("imported") or {})
    blocks = {
        "": first | origin,
        "settings": method,
        "evaluations": evaluations,
        "last validation": validated,
        "speed": speed,
        "last step": last,
        "how it was run": about,
    }
    console.print(f"[bold]{run.id}[/]")
    for title, block in blocks.items():
        table = Table(show_header=False, box=None, padding=(0, 2, 0, 2))
        for key, value in block.items():
            if value is not None:
                text = f"{value:.6g}" if isinstance(value, float) else escape(str(value))
                table.add_row(key, text)
        if table.row_count:
            console.print(*([f"[bold]{title}[/]"] if title else []), table, sep="\n")
    console.print("docs/reference/records.md explains the names of metrics", style="dim")


def _imported(origin: dict[str, Any]) -> dict[str, Any]:
    """Return the origin of imported samples, a line each."""
    lines = {f"imported {key}": origin.get(key) for key in ("program", "file", "score")}
    settings = origin.get("settings") or {}
    lines |= {f"their {key}": value for key, value in settings.items()}
    return {**lines, "not stated": ", ".join(origin.get("unknown") or ()) or None}


@app.command(epilog="Example: sage runs remove rl-dapo-branch")
def remove(
    name: RunName,
    runs: RunRoot = None,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask for confirmation.")] = False,
    json: Json = False,
) -> None:
    """Delete a run from which no other run was trained. It asks first; "no" exits with 1."""
    store = _runs(runs)
    run = store.find(name)
    store.check_childless(run)
    if not yes:
        typer.confirm(f"delete {run.folder}?", abort=True, err=json)
    store.remove(run)
    if json:
        emit({"removed": run.id, "folder": str(run.folder)})
    else:
        console.print(f"removed {run.id}")
