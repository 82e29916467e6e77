"""The answers of `sage sweep COMMAND --json`."""

from __future__ import annotations

from typing_extensions import TypedDict

from sage_cli.cli.terminal.run_answers import RemovedAnswer
from sage_cli.commands.trials.sweeps import Best
from sage_cli.reports.sweeps.data import SweepResult
from sage_cli.trials.search.folder import SweepState


class StoredSweepJson(SweepState):
    """A sweep's state; `driven_by` is a phrase that names its present driver."""

    driven_by: str | None
    folder: str


class SweepsAnswer(TypedDict):
    """Sweeps, the latest at the end."""

    sweeps: list[StoredSweepJson]


class SweepAnswer(TypedDict):
    """A sweep with its last report, once there is one."""

    sweep: StoredSweepJson
    report: SweepResult | None


class BestAnswer(TypedDict):
    """A sweep's best trials, one for each objective."""

    sweep: str
    best: list[Best]


class PicturesAnswer(TypedDict):
    """The files of a sweep's pictures."""

    sweep: str
    files: list[str]


class CancelAnswer(TypedDict):
    """The driver that was asked to stop, the jobs left with a cluster, and both in a sentence."""

    sweep: str
    asked: str | None
    jobs: list[str]
    said: str


class RemovedSweepAnswer(RemovedAnswer):
    """The removed sweeps, and a sentence for each study that stays in a database."""

    kept: list[str]


class CommandAnswer(TypedDict):
    """A command, word by word."""

    command: list[str]
