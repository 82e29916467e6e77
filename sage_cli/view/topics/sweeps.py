"""Stored sweeps, with their last report."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Any

from typing_extensions import TypedDict

from sage_cli.errors import SageError, StoreError
from sage_cli.reports.chapters import ShownTable, shown_table
from sage_cli.reports.sweeps.data import SweepResult
from sage_cli.reports.sweeps.table import sweep_tables
from sage_cli.trials.search.folder import SweepFolder, Sweeps
from sage_cli.view.stored.runs_read import is_one_part


class SweepRow(TypedDict):
    """A sweep: its sampler, counts of trials by state, its best trial, and who drives it."""

    name: str
    sampler: str | None
    objectives: list[str]
    trials: dict[str, int]
    best: str | None
    driven_by: str | None
    why_torn: str | None


class SweepsView(TypedDict):
    """Sweeps, the latest at the end."""

    sweeps: list[SweepRow]


class SweepView(TypedDict):
    """A sweep with its last report, once there is one.

    `tables` are those that the terminal shows, trials first; `commands` train the first run of a
    trial, by its number.
    """

    sweep: SweepRow
    folder: str
    command: str | None
    report: SweepResult | None
    tables: list[ShownTable]
    commands: dict[str, str]
    provenance: dict[str, Any]
    why: str | None


def sweeps_view(root: Path) -> SweepsView:
    """Return every sweep, the latest first."""
    return {"sweeps": [_row(one) for one in reversed(Sweeps(root).all())]}


def sweep_view(root: Path, name: str) -> SweepView:
    """Return a sweep with its last report, or why there is none. Raises StoreError."""
    folder = Sweeps(root).root / name
    if not is_one_part(name) or not folder.is_dir():
        raise StoreError(f"there is no sweep '{name}'", "the list has those that are there")
    sweep, report, why = SweepFolder(folder), None, None
    tables: list[ShownTable] = []
    commands: dict[str, str] = {}
    provenance: dict[str, Any] = {}
    try:
        report = sweep.result
        if report is not None:
            tables = [shown_table(table) for table in sweep_tables(report)]
            commands, provenance = sweep.commands, sweep.provenance
    except SageError as error:
        why = error.cause
    if report is None and why is None:
        why = "no report yet: it is written as trials end"
    again = shlex.join(("sage", "sweep", "--config", str(folder / "config.json")))
    return {
        "sweep": _row(sweep),
        "folder": str(folder),
        "command": None if sweep.driven_by else again,
        "report": report,
        "tables": tables,
        "commands": commands,
        "provenance": provenance,
        "why": why,
    }


def _row(sweep: SweepFolder) -> SweepRow:
    try:
        state, why = sweep.state, None
    except (SageError, OSError) as error:
        state, why = {}, str(error)
    return {
        "name": sweep.name,
        "sampler": state.get("sampler"),
        "objectives": list(state.get("objectives") or ()),
        "trials": dict(state.get("trials") or {}),
        "best": state.get("best"),
        "driven_by": sweep.driven_by,
        "why_torn": why,
    }
