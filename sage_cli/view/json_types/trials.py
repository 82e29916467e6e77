"""Types of the answers about sweeps and suites."""

from __future__ import annotations

from typing import Any

from typing_extensions import TypedDict

from sage_cli.reports.passk import CurveJson
from sage_cli.reports.sweeps.plain import SweepData
from sage_cli.trials.suites.task_states import TaskState
from sage_cli.view.json_types.look import Look


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
    """A sweep with its last report, once there is one."""

    sweep: SweepRow
    folder: str
    command: str | None
    report: SweepData | None
    why: str | None


class SuiteRow(TypedDict):
    """A suite's folder; `claims` counts verdicts, `failures` the tasks that were given up."""

    name: str
    title: str
    written: str | None
    claims: dict[str, int]
    tasks: dict[str, int]
    failures: int
    driven_by: str | None
    why_torn: str | None


class SuitesView(TypedDict):
    """Suites of which something is stored, the latest first."""

    suites: list[SuiteRow]


class TableJson(TypedDict):
    """A table with the heads of its columns."""

    title: str
    columns: list[str]
    rows: list[list[Any]]
    notes: list[str]


class SectionJson(TypedDict):
    """A section of a report; `curves` at `k`, empty where it has none."""

    name: str
    title: str
    tables: list[TableJson]
    k: list[int]
    curves: list[CurveJson]
    notes: list[str]


class TaskRow(TypedDict):
    """A task that failed: why, and the last lines of its log."""

    name: str
    kind: str
    reason: str
    log: list[str]


class SuiteView(TypedDict):
    """A suite's report, as far as it is done. `looks` are by method, `tasks` as last noted."""

    suite: SuiteRow
    folder: str
    sections: list[SectionJson]
    looks: dict[str, Look]
    tasks: list[TaskState]
    failures: list[TaskRow]
    provenance: dict[str, Any]
