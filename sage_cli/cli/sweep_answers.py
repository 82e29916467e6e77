"""What `sage sweeps` answers with `--json`."""

from __future__ import annotations

from typing_extensions import TypedDict

from sage_cli.cli.answers import RemovedAnswer
from sage_cli.reports.sweeps.data import Value
from sage_cli.reports.sweeps.plain import SweepData
from sage_cli.sweep.folder import SweepState


class StoredSweepJson(SweepState):
    """A sweep's state; `driven_by` says in words who drives it now."""

    driven_by: str | None
    folder: str


class SweepsAnswer(TypedDict):
    """Sweeps, the one that changed last at the end."""

    sweeps: list[StoredSweepJson]


class SweepAnswer(TypedDict):
    """A sweep with its last report, once there is one."""

    sweep: StoredSweepJson
    report: SweepData | None


class BestJson(TypedDict):
    """The best cell by an objective, by its number in the report.

    `words` are the command that trains its first run, or finds it.

    `alike` are the numbers of the cells that can't be told apart from it, null where the noise
    isn't known.
    """

    objective: str
    number: int
    value: float
    interval: tuple[float, float] | None
    words: str
    alike: tuple[int, ...] | None
    settings: dict[str, Value]
    runs: tuple[str, ...]


class BestAnswer(TypedDict):
    """A sweep's best cells, one for each objective."""

    sweep: str
    best: list[BestJson]


class ImportanceAnswer(TypedDict):
    """By objective, the share of each parameter."""

    sweep: str
    importances: dict[str, dict[str, float]]


class CancelAnswer(TypedDict):
    """Who was asked to stop, the jobs that are left with a cluster, and what was said."""

    sweep: str
    asked: str | None
    jobs: list[str]
    said: str


class RemovedSweepAnswer(RemovedAnswer):
    """What was removed, and in sentences which studies in a database stay, and why."""

    kept: list[str]


class CommandAnswer(TypedDict):
    """A command, word by word."""

    command: list[str]
