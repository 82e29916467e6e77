"""Types of the answers about sweeps and suites."""

from __future__ import annotations

from typing import Any

from typing_extensions import TypedDict

from sage_cli.reports.shown import ShownReport, ShownTable
from sage_cli.reports.sweeps.data import SweepResult
from sage_cli.trials.task import TaskState
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
    report: ShownReport | None
    pictures: dict[str, str]
    policies: list[str]
    looks: dict[str, Look]
    tasks: list[TaskState]
    failures: list[TaskRow]
