"""`sage runs`: list, show, compare, prune, locate and remove runs."""

from __future__ import annotations

import csv
import shutil
import sys
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from itertools import chain
from json import dumps
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.markup import escape
from rich.table import Table

from sage_cli.cli import completions
from sage_cli.cli.console import console, emit, name_column
from sage_cli.cli.group import new_app
from sage_cli.cli.live import doing
from sage_cli.cli.options import DryRun, Json, RunName, RunRoot
from sage_cli.errors import BusyError, ConfigurationError
from sage_cli.store.files import TornError, read_object

if TYPE_CHECKING:
    from sage_cli.models.policy import Policy
    from sage_cli.store.run import Run, Runs
    from sage_cli.store.run_facts import RunFacts

app = new_app("List, show, compare, prune, locate and remove runs.")
MIB = 2**20
FIRST = ("status", "kind")
SHOWN = ("parent", "started", "seconds", "seed", "host", "commit", "command", "reason")


def _runs(root: Path | None) -> Runs:
    from sage_cli.settings.sections.records import default_root
    from sage_cli.store.run import Runs

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
    """List all runs, oldest first, those together that differ in their seeds alone."""
    store = _runs(runs)
    listed = store.all()
    if columns or where or as_csv:
        list_facts(listed, columns, where or (), as_csv, json)
        return
    if json:
        emit({"runs": [_listed(run) for run in listed]})
        return
    from sage_cli.store.run_facts import RunFacts, replicated, telling_apart

    all_facts = [RunFacts.listed(run) for run in listed]
    names = telling_apart(all_facts)
    ids = name_column("run", (run.id for run in listed))
    table = Table(ids, "status", "steps", "time", "parent", "settings that differ", box=None)
    for facts in chain.from_iterable(replicated(all_facts)):
        run, values = facts.run, {name: facts.setting(name) for name in names}
        table.add_row(
            run.id,
            facts.about["status"] + (f"; replacement: {new}" if (new := _replacement(run)) else ""),
            str(_steps(run)),
            f"{facts.about['seconds'] or 0:.0f} s",
            escape(str(facts.about["parent"] or "")),
            escape(" ".join(f"{key}={_cell(v)}" for key, v in values.items() if v is not None)),
        )
    if not listed:
        console.print(f"no runs yet in {store.root.resolve()}: `sage rl` trains one")
        return
    console.print(table)
    console.print("for other columns: --columns guide.tau,rl.seed,pass@1", style="dim")


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
    validations = [record for record in records if any(key.startswith("eval/") for key in record)]
    at = {"validated at step": validations[-1]["step"]} if validations else {}
    last = validations[-1] if validations else {}
    figures = {key: value for key, value in last.items() if key.startswith("eval/")}
    return (records or [{}])[-1], {**at, **figures}


def _steps(run: Run) -> int:
    return int(run.metrics.latest(compared=True).get("step", 0))


def list_facts(
    runs: Sequence[Run], columns: str | None, where: Sequence[str], as_csv: bool, json: bool
) -> None:
    """Print the runs that fit, with the given columns."""
    from sage_cli.reports.tables import no_formula
    from sage_cli.store.run_facts import RunFacts, expanded, selected

    facts = [RunFacts.listed(run) for run in runs]
    fitting = selected(facts, where)
    names = ["id", *expanded(columns or "kind,status,parent", fitting or facts)]
    rows = [{name: run.value(name) for name in names} for run in fitting]
    if json:
        emit({"columns": names, "runs": rows})
    elif as_csv:
        writer = csv.writer(sys.stdout, lineterminator="\n")
        writer.writerow(map(no_formula, names))
        for row in rows:
            writer.writerow(no_formula(_cell(row[name], full=True)) for name in names)
    else:
        _print_rows(names, rows, fitting)


def _print_rows(
    names: Sequence[str], rows: Sequence[dict[str, Any]], fitting: Sequence[RunFacts]
) -> None:
    ids = name_column("run", (facts.run.id for facts in fitting))
    table = Table(ids, *names[1:], box=None)
    for row in rows:
        table.add_row(*(escape(_cell(row[name])) for name in names))
    console.print(table if rows else "no run fits")


def _cell(value: Any, *, full: bool = False) -> str:
    """Return a value as a cell: empty for None, numbers with four digits unless `full`."""
    if value is None:
        return ""
    if isinstance(value, float):
        return repr(value) if full else f"{value:.4g}"
    return dumps(value) if isinstance(value, list | dict | bool) else str(value)


@app.command()
def show(name: RunName, runs: RunRoot = None, json: Json = False) -> None:
    """Show how a run was trained, its pass@k, its manifest, its speed and its last metrics."""
    from sage_cli.store.run import SEALED, evaluation_figures
    from sage_cli.store.run_facts import RunFacts, speed_figures

    run = _runs(runs).find(name)
    run.require_whole()
    method = RunFacts.from_run(run).method
    last, validated, evaluations = *_last_and_validated(run), evaluation_figures(run)
    speed, changed = speed_figures(run.metrics.read()), run.changed(*SEALED)
    if json:
        manifest: Any = {key: v for key, v in run.manifest.items() if key != "files"}
        answer = {
            "manifest": manifest,
            "method": method,
            "last": last,
            "validated": validated,
            "evaluations": evaluations,
            "speed": speed,
            "changed": changed,
            "folder": str(run.folder),
        }
        emit(answer)
        return
    table = Table(show_header=False, box=None)
    about = [{key: run.manifest.get(key) for key in keys} for keys in (FIRST, SHOWN)]
    figures = {**validated, **speed, **last}
    about[0]["changed since the end"] = ", ".join(changed) or None
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


@app.command()
def diff(
    a: RunName,
    b: Annotated[
        str, typer.Argument(help="The run to compare it with.", autocompletion=completions.runs)
    ],
    runs: RunRoot = None,
    json: Json = False,
) -> None:
    """Compare two runs: the settings that differ, and the figures of both."""
    from sage_cli.settings.sections.records import default_root
    from sage_cli.store.run import Runs
    from sage_cli.store.run_facts import RunFacts, differences

    first, other = (RunFacts.from_run(Runs(runs or default_root()).find(name)) for name in (a, b))
    if first.run.folder.resolve() == other.run.folder.resolve():
        raise ConfigurationError(
            f"'{a}' and '{b}' are one run, {first.run.id}", "name another one: `sage runs list`"
        )
    parts: dict[str, dict[str, tuple[Any, Any]]] = {
        "settings": differences(first.settings, other.settings),
        "about": differences(first.about, other.about),
        "figures": {
            key: (first.figures.get(key), other.figures.get(key))
            for key in dict.fromkeys((*first.figures, *other.figures))
        },
    }
    if json:
        emit({"a": first.run.id, "b": other.run.id, **parts})
        return
    alone = {_section(key) for key in first.settings} ^ {_section(key) for key in other.settings}
    parts["settings"] = {
        key: pair for key, pair in parts["settings"].items() if _section(key) not in alone
    }
    if alone:
        console.print(f"only one of them has settings of {', '.join(sorted(alone))}")
    for name, pairs in parts.items():
        table = Table(name, first.run.id, other.run.id, box=None, padding=(0, 2, 0, 0))
        for key, values in pairs.items():
            table.add_row(key, *(escape(_cell(value)) for value in values))
        console.print(table if pairs else f"no difference in {name}", "")


def _section(key: str) -> str:
    return key.partition(".")[0]


@app.command()
def prune(
    completions: Annotated[
        bool, typer.Option("--completions", help="Also completions that trainings kept.")
    ] = False,
    measured: Annotated[
        bool, typer.Option("--measured", help="Also checkpoints with stored samples.")
    ] = False,
    orphans: Annotated[
        bool, typer.Option("--orphans", help="Also samples of models that no run here has.")
    ] = False,
    dry_run: DryRun = False,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Don't ask.")] = False,
    runs: RunRoot = None,
    json: Json = False,
) -> None:
    """Delete what no result needs: checkpoints of finished runs, and what is named.

    It shows the plan and asks; "no" exits with 1.
    """

    with doing("looking for what can go"):
        plan = plan_prune(_runs(runs), Wanted(completions, measured, orphans))
    if not json:
        _show_pruned("can be deleted", plan.deleted)
        _show_pruned("kept", plan.kept)
    if plan.deleted and not dry_run:
        if not yes:
            typer.confirm(f"delete {_total(plan.deleted)}?", abort=True, err=json)
        deleted: Sequence[Found] = carry_out(plan)
    else:
        deleted = plan.deleted
    if json:
        answer = {
            "deleted": [_row(entry) for entry in deleted],
            "kept": [_row(entry) for entry in plan.kept],
            "carried_out": bool(plan.deleted) and not dry_run,
        }
        emit(answer)
    elif plan.deleted and not dry_run:
        console.print(f"deleted {_total(deleted)}")


def _show_pruned(title: str, entries: Sequence[Found]) -> None:
    """Print folders of one reason and run as a line."""
    if not entries:
        console.print(f"{title}: nothing")
        return
    groups: dict[tuple[str, str], list[Found]] = {}
    for entry in entries:
        groups.setdefault((entry.run.id if entry.run else "", entry.why), []).append(entry)
    table = Table("run", "folders", "MiB", "why", box=None)
    for (run, why), of in groups.items():
        size = sum(entry.size for entry in of) / MIB
        names = of[0].path.name if len(of) == 1 else f"{of[0].path.name} and {len(of) - 1} more"
        table.add_row(escape(run), escape(names), f"{size:,.1f}", escape(why))
    console.print(f"[bold]{title}[/]: {_total(entries)}", table, sep="\n")


def _total(entries: Sequence[Found]) -> str:
    folders = f"{len(entries):,} folder{'s' if len(entries) != 1 else ''}"
    return f"{folders}, {sum(entry.size for entry in entries) / MIB:,.1f} MiB"


def _row(entry: Found) -> dict[str, Any]:
    run = entry.run.id if entry.run else None
    return {"path": str(entry.path), "bytes": entry.size, "why": entry.why, "run": run}


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


SETS = {"samples": "set.json"}
"""Folders of results by model, and the file of each that names the model."""


@dataclass(frozen=True)
class Found:
    """Something on the disk, its size, and why it can be deleted or is kept.

    `run` is the run that it belongs to, if it belongs to one.
    """

    path: Path
    size: int
    why: str
    run: Run | None = None


@dataclass(frozen=True)
class PrunePlan:
    """What `carry_out` deletes, and what it keeps."""

    deleted: tuple[Found, ...]
    kept: tuple[Found, ...]


@dataclass(frozen=True)
class Wanted:
    """What is to be deleted besides checkpoints of finished runs that nothing was measured on.

    `completions` are those that trainings kept, `measured` are measured checkpoints, too, and
    `orphans` are results of models that no run here has, as those of runs that were removed.
    """

    completions: bool = False
    measured: bool = False
    orphans: bool = False


def plan_prune(runs: Runs, wanted: Wanted) -> PrunePlan:
    """Return what would be deleted, and what is kept; nothing is changed."""
    pruning = _Pruning(runs, wanted)
    entries = [*pruning.of_runs(), *pruning.of_results()]
    return PrunePlan(
        tuple(entry for entry, deleted in entries if deleted),
        tuple(entry for entry, deleted in entries if not deleted),
    )


def carry_out(plan: PrunePlan) -> list[Found]:
    """Delete what the plan says, and return it; runs that are being written by now are left."""
    from sage_cli.store.locks import writer

    done = []
    for entry in plan.deleted:
        with suppress(BusyError):
            if entry.run is None:
                _delete(entry.path)
            else:
                with writer(entry.run.folder):
                    _delete(entry.path)
            done.append(entry)
    return done


@dataclass(frozen=True)
class _Pruning:
    runs: Runs
    wanted: Wanted

    @cached_property
    def results(self) -> dict[Path, str | None]:
        """Folders of results, and the fingerprint of the model of each; None if it is torn."""
        fingerprints: dict[Path, str | None] = {}
        for kind, name in SETS.items():
            for file in sorted((self.runs.root / kind).glob(f"*/{name}")):
                try:
                    fingerprints[file.parent] = str(read_object(file, "").get("model"))
                except TornError:
                    fingerprints[file.parent] = None
        return fingerprints

    @cached_property
    def policies(self) -> dict[str, list[Policy]]:
        """Run -> its checkpoints, and its model if it is finished."""
        from sage_cli.models.policy import named_policies

        return {run.id: named_policies(f"{run.id}@all", self.runs) for run in self.runs.whole()}

    def of_runs(self) -> Iterator[tuple[Found, bool]]:
        """Yield checkpoints and kept completions of all runs."""
        measured = set(self.results.values())
        for run in self.runs.whole():
            for policy in self.policies[run.id]:
                if policy.checkpoint is not None:
                    yield self._checkpoint(run, policy, measured)
            completions = run.folder / "completions"
            if completions.is_dir():
                deleted = self.wanted.completions and run.finished
                why = "completions of the training" + ("" if deleted else "; --completions")
                yield _found(completions, why, run), deleted

    def _checkpoint(
        self, run: Run, policy: Policy, measured: set[str | None]
    ) -> tuple[Found, bool]:
        from sage_cli.models.policy import Policy
        from sage_cli.store.locks import is_held

        folder = Path(policy.path)
        if is_held(run.folder):
            return _found(folder, "the run is being written", run), False
        if not run.finished:
            return _found(folder, "the training resumes from here", run), False
        # a run that may have to load the checkpoint, its parent
        unfinished = (candidate for candidate in self.runs.whole() if not candidate.finished)
        grown = (
            candidate.id
            for candidate in unfinished
            if candidate.manifest.get("parent") == policy.word
        )
        if child := next(grown, None):
            return _found(folder, f"{child} grows from here and is not finished", run), False
        ends_with = Policy.of_run(run).fingerprint
        if policy.fingerprint in measured - {ends_with}:
            why = "measured" + ("" if self.wanted.measured else "; --measured")
            return _found(folder, why, run), self.wanted.measured
        return _found(folder, "the run is finished", run), True

    def of_results(self) -> Iterator[tuple[Found, bool]]:
        """Yield results of models that no run here has."""
        known = {policy.fingerprint for of_run in self.policies.values() for policy in of_run}
        for folder, model in self.results.items():
            if model is None or model in known:
                continue
            deleted = self.wanted.orphans
            why = f"{folder.parent.name} of a model that no run here has"
            yield _found(folder, why + ("" if deleted else "; --orphans")), deleted


def _found(path: Path, why: str, run: Run | None = None) -> Found:
    size = sum(file.stat().st_size for file in path.rglob("*") if file.is_file())
    return Found(path, size, why, run)


def _delete(folder: Path) -> None:
    """Rename the folder before its files go, so that a kill leaves nothing that looks whole."""
    aside = folder.with_name(f".{folder.name}.old")
    shutil.rmtree(aside, ignore_errors=True)
    folder.rename(aside)
    shutil.rmtree(aside)
