"""Stored suites: their reports, and why tasks of theirs failed."""

from __future__ import annotations

import csv
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from sage_cli.errors import StoreError
from sage_cli.json_value import json_value
from sage_cli.store.json_files import TornError, read_object
from sage_cli.store.lock import holder_of
from sage_cli.trials.failures import last_lines, stored_failures
from sage_cli.trials.suites.task_states import stored_states
from sage_cli.view.json_types.look import Look
from sage_cli.view.json_types.trials import (
    SectionJson,
    SuiteRow,
    SuitesView,
    SuiteView,
    TableJson,
    TaskRow,
)
from sage_cli.view.stored.runs_read import is_one_part, look_of

FAILURES, REPORT, TASKS = "failures.json", "report", "tasks"
MOST_ROWS = 2_000
_AGAIN = "`sage suite report` writes it again"


@dataclass(frozen=True)
class StoredSuite:
    """A folder `runs/suites/<name>/`, read."""

    folder: Path

    @property
    def name(self) -> str:
        """Return the folder's name."""
        return self.folder.name

    @property
    def file(self) -> Path | None:
        """Return the JSON of its report; None before there is one."""
        files = (self.folder / REPORT).glob("*.json")
        return next((one for one in sorted(files) if self.name.startswith(one.stem)), None)

    @property
    def report(self) -> dict[str, Any]:
        """Return the report's JSON, empty before there is one. Raises TornError."""
        try:
            return {} if self.file is None else read_object(self.file, _AGAIN)
        except FileNotFoundError:  # written again at this moment
            return {}


class StoredSuites:
    """All suites below a folder of runs of which something is stored."""

    def __init__(self, root: Path) -> None:
        self.root = root / "suites"

    def all(self) -> list[StoredSuite]:
        """Return every suite, the latest last."""
        folders = [path for path in self.root.glob("[!.]*") if path.is_dir()]
        return [StoredSuite(path) for path in sorted(folders, key=lambda one: one.stat().st_mtime)]

    def find(self, name: str) -> StoredSuite:
        """Return the suite of that folder. Raises StoreError."""
        if not is_one_part(name) or not (self.root / name).is_dir():
            raise StoreError(f"there is no suite '{name}'", "the list has those that are there")
        return StoredSuite(self.root / name)


def suites_view(root: Path) -> SuitesView:
    """Return every stored suite, the latest first."""
    return {"suites": [_row(one) for one in reversed(StoredSuites(root).all())]}


def suite_view(root: Path, name: str, looks: dict[str, Look]) -> SuiteView:
    """Return a suite's report: claims, tables, notes, and the tasks that failed with their logs."""
    suite = StoredSuites(root).find(name)
    report = suite.report
    return {
        "suite": _row(suite),
        "folder": str(suite.folder),
        "sections": list(_sections(report, suite)),
        "looks": _method_looks(suite, looks),
        "tasks": stored_states(suite.folder),
        "failures": list(_failures(suite)),
        "provenance": dict(report.get("provenance") or {}),
    }


def _row(suite: StoredSuite) -> SuiteRow:
    why = None
    try:
        report = suite.report
    except TornError as error:
        report, why = {}, error.cause
    claims = Counter(str(one.get("verdict")) for one in _claims(report))
    file = suite.file
    written = None if file is None else datetime.fromtimestamp(file.stat().st_mtime, UTC)
    states = Counter(one["state"] for one in stored_states(suite.folder))
    return {
        "name": suite.name,
        "title": str(report.get("title") or suite.name),
        "written": None if written is None else written.isoformat(timespec="seconds"),
        "claims": dict(claims),
        "tasks": dict(states),
        "failures": len(stored_failures(suite.folder / FAILURES)),
        "driven_by": holder_of(suite.folder),
        "why_torn": why,
    }


def _stored(report: Mapping[str, Any]) -> Iterator[tuple[str, str, Mapping[str, Any]]]:
    """Yield chapter, name and data of each section."""
    for chapter in report.get("chapters") or ():
        for name, section in (chapter.get("sections") or {}).items():
            if isinstance(section, dict):
                yield str(chapter.get("name")), name, section


def _claims(report: Mapping[str, Any]) -> list[dict[str, Any]]:
    return [
        one
        for _, _, section in _stored(report)
        for one in section.get("claims") or ()
        if isinstance(one, dict)
    ]


def _sections(report: Mapping[str, Any], suite: StoredSuite) -> Iterator[SectionJson]:
    """Yield each section with its notes, its curves, and the tables of its CSV files."""
    sheets = sorted((suite.folder / REPORT).glob("*.csv"))
    several = len(report.get("chapters") or ()) > 1
    for chapter, name, section in _stored(report):
        stems = [f"{chapter}-{name}", name] if several else [name]
        tables = [_sheet(one) for one in sheets if _belongs(one.stem, stems)]
        yield {
            "name": name,
            "title": str(section.get("title") or name),
            "tables": tables,
            "k": list(section.get("k") or ()) if "curves" in section else [],
            "curves": list(section.get("curves") or ()),
            "notes": [str(note) for note in section.get("notes") or ()],
        }


def _belongs(stem: str, stems: list[str]) -> bool:
    return any(stem == one or stem.startswith(f"{one}-") for one in stems)


def policies_of_suite(suite: StoredSuite) -> list[str]:
    """Return the policies of a suite's report, method after method."""
    return [policy for _, policy in _method_policies(suite)]


def _method_looks(suite: StoredSuite, looks: dict[str, Look]) -> dict[str, Look]:
    """Return method -> the look of its first run, so that a policy has one colour everywhere."""
    found: dict[str, Look] = {}
    for method, policy in _method_policies(suite):
        found.setdefault(method, look_of(policy, looks))
    return found


def _method_policies(suite: StoredSuite) -> Iterator[tuple[str, str]]:
    for file in sorted((suite.folder / REPORT).glob("*runs.csv")):
        table = _sheet(file)
        if {"method", "policy"} <= {*table["columns"]}:
            method, policy = (table["columns"].index(name) for name in ("method", "policy"))
            yield from ((str(row[method]), str(row[policy])) for row in table["rows"])


def _sheet(file: Path) -> TableJson:
    """Return a CSV file of a report as a table, its numbers as numbers."""
    with file.open(encoding="utf-8", newline="") as handle:
        lines = list(csv.reader(handle))
    head, rows = (lines[0], lines[1:]) if lines else ([], [])
    cut = [f"the first {MOST_ROWS:,} of {len(rows):,} rows"] if len(rows) > MOST_ROWS else []
    return {
        "title": file.stem,
        "columns": head,
        "rows": [[_number(cell) for cell in row] for row in rows[:MOST_ROWS]],
        "notes": cut,
    }


def _failures(suite: StoredSuite) -> Iterator[TaskRow]:
    try:
        stored = json_value((suite.folder / FAILURES).read_bytes())
    except (OSError, ValueError):
        return
    for name, why in stored.items() if isinstance(stored, dict) else ():
        yield {
            "name": name,
            "kind": str(why.get("kind")) if isinstance(why, dict) else "",
            "reason": str(why.get("reason")) if isinstance(why, dict) else str(why),
            "log": list(last_lines(suite.folder / TASKS / f"{name}.log")),
        }


def _plain(value: Any) -> Any:
    return value if isinstance(value, str | int | float | bool | None) else str(value)


def _number(cell: str) -> Any:
    try:
        return float(cell) if any(mark in cell for mark in ".e") else int(cell)
    except ValueError:
        return cell
