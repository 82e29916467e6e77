"""Stored suites and sweeps with their last reports, and why tasks of theirs failed."""

from __future__ import annotations

import shlex
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from typing_extensions import TypedDict

from sage_cli.errors import SageError, StoreError
from sage_cli.reports.shown import SHOWN, Shown, shown_table
from sage_cli.store.json_files import CorruptFileError, read_object
from sage_cli.store.locks import holder_of
from sage_cli.trials.failures import last_lines, stored_failures
from sage_cli.trials.sweep.folder import SweepFolder, Sweeps
from sage_cli.trials.sweep.result import SweepResult
from sage_cli.trials.sweep.result_tables import sweep_tables
from sage_cli.trials.task import TaskState, stored_states
from sage_cli.view.stored_runs import LineStyle, is_one_part, look_of

FAILURES, REPORT, TASKS = "failures.json", "report", "tasks"
_AGAIN = "`sage suite report` writes it again"


class SuiteRow(TypedDict):
    """A suite's folder; `claims` counts verdicts, `failures` the tasks that were given up."""

    name: str
    title: str
    written: str | None
    claims: dict[str, int]
    tasks: dict[str, int]
    failures: int
    driven_by: str | None
    why_corrupt: str | None


class SuitesView(TypedDict):
    """Suites of which something is stored, the latest first."""

    suites: list[SuiteRow]


class TaskRow(TypedDict):
    """A task that failed: why, and the last lines of its log."""

    name: str
    kind: str
    reason: str
    log: list[str]


class SuiteView(TypedDict):
    """A suite's report, as far as it is done, null before there is one.

    `pictures` are SVG by stem, without those that the page draws itself. `policies` are in the
    report's order, `looks` are by method, `tasks` as last noted.
    """

    suite: SuiteRow
    folder: str
    report: Shown | None
    pictures: dict[str, str]
    policies: list[str]
    looks: dict[str, LineStyle]
    tasks: list[TaskState]
    failures: list[TaskRow]


@dataclass(frozen=True)
class StoredSuite:
    """A folder `runs/suites/<name>/`, read."""

    folder: Path

    @property
    def name(self) -> str:
        """Return the folder's name."""
        return self.folder.name

    @property
    def shown(self) -> Shown | None:
        """Its report as the page shows it; None before there is one. Raises CorruptFileError."""
        path = self.folder / REPORT / SHOWN
        try:
            stored = read_object(path, _AGAIN)
        except FileNotFoundError:
            return None
        if not isinstance(stored.get("chapters"), list):
            raise CorruptFileError(f"{path} is not a report", _AGAIN)
        return stored


class StoredSuites:
    """All suites below a folder of runs of which something is stored."""

    def __init__(self, root: Path) -> None:
        self.root = root / "suites"

    def all(self) -> list[StoredSuite]:
        """Return every suite, the latest last."""
        folders = [path for path in self.root.glob("[!.]*") if path.is_dir()]
        return [
            StoredSuite(path) for path in sorted(folders, key=lambda path: path.stat().st_mtime)
        ]

    def find(self, name: str) -> StoredSuite:
        """Return the suite of that folder. Raises StoreError."""
        if not is_one_part(name) or not (self.root / name).is_dir():
            raise StoreError(f"there is no suite '{name}'", "the list shows the existing ones")
        return StoredSuite(self.root / name)


def suites_view(root: Path) -> SuitesView:
    """Return every stored suite, the latest first."""
    return {"suites": [_suite_row(suite)[0] for suite in reversed(StoredSuites(root).all())]}


def suite_view(root: Path, name: str, looks: dict[str, LineStyle]) -> SuiteView:
    """Return a suite's report, its tasks, and those that failed with their logs."""
    suite = StoredSuites(root).find(name)
    row, report = _suite_row(suite)
    policies = list(_method_policies(report))
    return {
        "suite": row,
        "folder": str(suite.folder),
        "report": report,
        "pictures": _pictures(suite, report),
        "policies": [policy for _, policy in policies],
        # the look of its first run, so that a policy has one colour everywhere
        "looks": {method: look_of(policy, looks) for method, policy in reversed(policies)},
        "tasks": stored_states(suite.folder),
        "failures": list(_failures(suite)),
    }


def _suite_row(suite: StoredSuite) -> tuple[SuiteRow, Shown | None]:
    """Return a suite's row, and its report; None if it is corrupt, which the row says."""
    report, why, written = None, None, None
    try:
        report = suite.shown
    except CorruptFileError as error:
        why = error.cause
    if report is not None:
        seconds = (suite.folder / REPORT / SHOWN).stat().st_mtime
        written = datetime.fromtimestamp(seconds, UTC).isoformat(timespec="seconds")
    states = Counter(task["state"] for task in stored_states(suite.folder))
    row: SuiteRow = {
        "name": suite.name,
        "title": suite.name if report is None else report["title"],
        "written": written,
        "claims": dict(Counter(_column(report, "claims", "here"))),
        "tasks": dict(states),
        "failures": len(stored_failures(suite.folder / FAILURES)),
        "driven_by": holder_of(suite.folder),
        "why_corrupt": why,
    }
    return row, report


def policies_of_suite(suite: StoredSuite) -> list[str]:
    """Return the policies of a suite's report, method after method."""
    try:
        return [policy for _, policy in _method_policies(suite.shown)]
    except CorruptFileError:
        return []


def _sections(report: Shown | None) -> list[Shown]:
    return (
        [section for chapter in report["chapters"] for section in chapter["sections"]]
        if report
        else []
    )


def _pictures(suite: StoredSuite, report: Shown | None) -> dict[str, str]:
    """Return the SVG of each picture by its stem; the page draws those of curves itself."""
    stems = [
        stem
        for section in _sections(report)
        if not section["curves"]
        for stem in section["pictures"]
    ]
    files = {stem: suite.folder / REPORT / f"{stem}.svg" for stem in stems}
    return {stem: file.read_text("utf-8") for stem, file in files.items() if file.is_file()}


def _column(report: Shown | None, section: str, name: str) -> Iterator[str]:
    """Yield the cells of a column in the first tables of the sections of that name."""
    for shown in _sections(report):
        for table in shown["tables"][:1] if shown["name"] == section else ():
            heads = [column["name"] for column in table["columns"]]
            yield from (row[heads.index(name)] for row in table["rows"] if name in heads)


def _method_policies(report: Shown | None) -> Iterator[tuple[str, str]]:
    methods, policies = (_column(report, "runs", name) for name in ("method", "policy"))
    return zip(methods, policies, strict=True)


def _failures(suite: StoredSuite) -> Iterator[TaskRow]:
    try:
        stored = read_object(suite.folder / FAILURES, _AGAIN)
    except (OSError, CorruptFileError):
        return
    for name, why in stored.items():
        yield {
            "name": name,
            "kind": str(why.get("kind")) if isinstance(why, dict) else "",
            "reason": str(why.get("reason")) if isinstance(why, dict) else str(why),
            "log": list(last_lines(suite.folder / TASKS / f"{name}.log")),
        }


class SweepRow(TypedDict):
    """A sweep: its sampler, counts of trials by state, its best trial, and who drives it."""

    name: str
    sampler: str | None
    objectives: list[str]
    trials: dict[str, int]
    best: str | None
    driven_by: str | None
    why_corrupt: str | None


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
    tables: list[Shown]
    commands: dict[str, str]
    provenance: dict[str, Any]
    why: str | None


def sweeps_view(root: Path) -> SweepsView:
    """Return every sweep, the latest first."""
    return {"sweeps": [_sweep_row(sweep) for sweep in reversed(Sweeps(root).all())]}


def sweep_view(root: Path, name: str) -> SweepView:
    """Return a sweep with its last report, or why there is none. Raises StoreError."""
    folder = Sweeps(root).root / name
    if not is_one_part(name) or not folder.is_dir():
        raise StoreError(f"there is no sweep '{name}'", "the list shows the existing ones")
    sweep, report, why = SweepFolder(folder), None, None
    tables: list[Shown] = []
    commands: dict[str, str] = {}
    provenance: dict[str, Any] = {}
    try:
        report = sweep.result
        if report is not None:
            tables = [shown_table(table) for table in sweep_tables(report)]
            commands, provenance = sweep.commands(report), sweep.provenance
    except SageError as error:
        why = error.cause
    if report is None and why is None:
        why = "no report yet: it is written as trials end"
    again = shlex.join(("sage", "sweep", "--config", str(folder / "config.json")))
    return {
        "sweep": _sweep_row(sweep),
        "folder": str(folder),
        "command": None if sweep.driven_by else again,
        "report": report,
        "tables": tables,
        "commands": commands,
        "provenance": provenance,
        "why": why,
    }


def _sweep_row(sweep: SweepFolder) -> SweepRow:
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
        "why_corrupt": why,
    }
