"""The contract of executors: they run commands, tell how each ended, and can end one.

An executor knows nothing of training. All state is in run folders, sample sets and the study, so
that a driver that dies is started again and finds what is done.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import Protocol


@dataclass(frozen=True)
class Resources:
    """The share of a machine that a command gets; it is ended after `minutes`."""

    threads: int = 1
    gpus: int = 0
    memory_gb: float | None = None
    minutes: float | None = None


@dataclass(frozen=True)
class Command:
    """A command line, and the log to which its output is appended.

    `name` is unique among the commands that run at the same time.
    """

    name: str
    words: tuple[str, ...]
    log: Path
    resources: Resources = Resources()


class Fate(StrEnum):
    """The ways in which a command can end, as its executor sees them."""

    EXITED = "exited"
    KILLED = "killed"  # by a signal that the executor didn't send
    TIMEOUT = "timeout"
    ENDED = "ended"  # by `end` or `close`
    LOST = "lost"  # unknown: its node or its record is gone


@dataclass(frozen=True)
class End:
    """The end of a command.

    `code` is its exit code, minus the signal's number where one killed it, None if unknown.
    `reason` is what Ray or Slurm report where a log cannot.
    """

    fate: Fate
    code: int | None = None
    reason: str = field(default="", compare=False)


class Executor(Protocol):
    """Runs commands in places of their own.

    Jobs are named by strings, which a driver may store. If `outlives`, jobs continue when their
    driver is gone, and `adopt` finds them again. Otherwise they end with it, however it ends.
    """

    outlives: bool
    places: int
    """How many commands may run, or wait in the executor's own queue, at the same time."""

    def submit(self, commands: Sequence[Command]) -> list[str]:
        """Start or queue commands; returns a job for each. Raises ExecutorError if that fails."""

    def adopt(self, job: str) -> bool:  # noqa: ARG002
        """Take over a job that an earlier driver submitted; False if the job is unknown."""
        return False

    def waits(self, job: str) -> bool:  # noqa: ARG002
        """Return True if a job is known to be queued, also again because its node was lost."""
        return False

    def ended(self) -> Mapping[str, End]:
        """The jobs that ended since the last call; does not wait."""

    def end(self, *jobs: str) -> None:
        """End jobs and all their processes: SIGTERM, and SIGKILL after some seconds.

        Returns when none of them runs any more, as far as can be seen from here. The next `ended`
        reports their ends. A job that has ended already is left alone.
        """

    def close(self) -> None:
        """End every job that does not outlive its driver."""
