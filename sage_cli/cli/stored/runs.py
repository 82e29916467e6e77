"""`sage runs list|show|diff|plot|prune|path|remove`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer
from rich.markup import escape
from rich.table import Table

from sage_cli.cli.group import new_app
from sage_cli.cli.options import Json, RunName, RunRoot
from sage_cli.cli.stored.run_files import prune
from sage_cli.cli.stored.run_tables import diff, list_facts, plot
from sage_cli.cli.terminal.console import console, emit, name_column
from sage_cli.store.runs.evaluations import evaluation_figures
from sage_cli.store.runs.run import Run, Runs

app = new_app("List, show, compare, plot, prune, locate and remove runs.")
FIRST = ("status", "kind")
SHOWN = ("parent", "started", "seconds", "seed", "host", "commit", "command", "reason")


def _runs(root: Path | None) -> Runs:
    from sage_cli.settings.sections.records import default_root

    return Runs(root or default_root())


@app.command("list")
def list_(
    runs: RunRoot = None,
    columns: Annotated[
        str | None, typer.Option(help="Settings and figures to show, as guide.tau,pass@1,reward.")
    ] = None,
    where: Annotated[
        list[str] | None, typer.Option(help="Only runs with setting=value; repeatable.")
    ] = None,
    as_csv: Annotated[bool, typer.Option("--csv", help="CSV on stdout, nothing else.")] = False,
    json: Json = False,
) -> None:
    """List all runs, oldest first."""
    store = _runs(runs)
    listed = store.all()
    if columns or where or as_csv:
        list_facts(listed, columns, where or (), as_csv, json)
        return
    if json:
        emit({"runs": [_listed(run) for run in listed]})
        return
    ids = name_column("run", (run.id for run in listed))
    table = Table(ids, "kind", "status", "steps", "time", "parent", box=None)
    for run in listed:
        manifest = run.known
        table.add_row(
            run.id,
            str(manifest.get("kind") or ""),
            run.status + (f"; replacement: {new}" if (new := _replacement(run)) else ""),
            str(_steps(run)),
            f"{manifest.get('seconds', 0):.0f} s",
            escape(str(manifest.get("parent") or "")),
        )
    if not listed:
        console.print(f"no runs yet in {store.root.resolve()}: `sage rl` trains one")
        return
    console.print(table)
    console.print("to see how they differ: --columns guide.tau,rl.seed,pass@1", style="dim")


@app.command()
def show(name: RunName, runs: RunRoot = None, json: Json = False) -> None:
    """Show how a run was trained, its pass@k, its manifest, its speed and its last metrics."""
    from sage_cli.store.runs.run_facts import RunFacts, speed_figures

    run = _runs(runs).find(name)
    run.require_whole()
    method = RunFacts.of(run).method
    last, validated, evaluations = *_last_and_validated(run), evaluation_figures(run)
    speed = speed_figures(run.metrics.read())
    if json:
        manifest: Any = run.manifest
        answer = {
            "manifest": manifest,
            "method": method,
            "last": last,
            "validated": validated,
            "evaluations": evaluations,
            "speed": speed,
            "folder": str(run.folder),
        }
        emit(answer)
        return
    table = Table(show_header=False, box=None)
    about = [{key: run.manifest.get(key) for key in keys} for keys in (FIRST, SHOWN)]
    figures = {**validated, **speed, **last}
    about.append(_imported(run.manifest.get("imported") or {}))
    parts = (
        (about[0], ""),
        (about[2], ""),
        (method, ""),
        (evaluations, "cyan"),
        (about[1], ""),
        (figures, "cyan"),
    )
    for part, style in parts:
        for key, value in part.items():
            if value is not None:
                shown = f"{value:.6g}" if isinstance(value, float) else escape(str(value))
                table.add_row(key, shown, style=style)
    console.print(f"[bold]{run.id}[/]", table)


def _imported(origin: dict[str, Any]) -> dict[str, Any]:
    """Return the origin of imported samples, a line each."""
    lines = {f"imported {key}": origin.get(key) for key in ("program", "file", "score")}
    settings = origin.get("settings") or {}
    lines |= {f"their {key}": value for key, value in settings.items()}
    return {**lines, "not known": ", ".join(origin.get("unknown") or ()) or None}


app.command()(diff)
app.command()(plot)
app.command()(prune)


@app.command()
def path(name: RunName, runs: RunRoot = None, json: Json = False) -> None:
    """Print the folder of a run, for scripts."""
    folder = str(_runs(runs).find(name).folder)
    if json:
        emit({"folder": folder})
    else:
        typer.echo(folder)


@app.command()
def remove(
    name: RunName,
    runs: RunRoot = None,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Don't ask.")] = False,
    json: Json = False,
) -> None:
    """Delete a run that no other run grew from. It asks first; "no" exits with 1."""
    store = _runs(runs)
    run = store.find(name)
    store.refuse_parent(run)
    if not yes:
        typer.confirm(f"delete {run.folder}?", abort=True, err=json)
    store.remove(run)
    if json:
        emit({"removed": run.id, "folder": str(run.folder)})
    else:
        console.print(f"removed {run.id}")


def _listed(run: Run) -> dict[str, Any]:
    """Return a run's manifest with its true status, and the status of its replacement.

    A torn run has the part of the manifest that can be read, and the reason.
    """
    facts = {**run.known, "id": run.id, "status": run.status}
    if (torn := run.torn) is not None:
        facts["reason"] = torn.cause
    if replacement := _replacement(run):
        facts["replacement"] = replacement
    return facts


def _replacement(run: Run) -> str | None:
    """Return status and step of the run that is trained in the place of `run`, if there is one."""
    if not run.replacement.begun:
        return None
    return f"{run.replacement.status} at step {_steps(run.replacement)}"


def _last_and_validated(run: Run) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the last step's metrics, and step and figures of the last validation."""
    records = run.metrics.read()
    validations = [one for one in records if any(key.startswith("eval/") for key in one)]
    at = {"validated at step": validations[-1]["step"]} if validations else {}
    last = validations[-1] if validations else {}
    figures = {key: value for key, value in last.items() if key.startswith("eval/")}
    return (records or [{}])[-1], {**at, **figures}


def _steps(run: Run) -> int:
    records = run.metrics.read()
    return int(records[-1]["step"]) if records else 0
