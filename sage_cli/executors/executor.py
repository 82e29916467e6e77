"""What every executor is: it runs commands, tells how each ended, and can end one.

It knows nothing of training. All state is in run folders, sample sets and the study, so that a
driver that dies is started again and finds what is done.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import Protocol


@dataclass(frozen=True)
class Resources:
    """What a task gets; one that takes longer than `minutes` is ended."""

    threads: int = 1
    gpus: int = 0
    memory_gb: float | None = None
    minutes: float | None = None


@dataclass(frozen=True)
class Task:
    """A command that a person could type, and where what it prints is appended.

    `name` is unlike those of all other tasks that run at the same time.
    """

    name: str
    command: tuple[str, ...]
    log: Path
    resources: Resources = Resources()


class Fate(StrEnum):
    """How a task ended, as far as its executor saw it."""

    EXITED = "exited"
    KILLED = "killed"  # by a signal that the executor didn't send
    TIMEOUT = "timeout"
    ENDED = "ended"  # by `end` or `close`
    LOST = "lost"  # nobody knows: its node or its record is gone


@dataclass(frozen=True)
class End:
    """How a task ended.

    `code` is its exit code, minus the signal's number where one killed it, None where nobody knows.
    `reason` is what Ray or Slurm say of it, where a log can't.
    """

    fate: Fate
    code: int | None = None
    reason: str = field(default="", compare=False)


class Executor(Protocol):
    """Runs tasks in places of their own.

    Jobs are named by strings, which a driver may keep: where `outlives`, jobs go on when their
    driver is gone, and `adopt` finds them again. Otherwise they end with it, however it ends.
    """

    outlives: bool

    @property
    def places(self) -> int:
        """How many tasks may run, or wait in the executor's own queue, at the same time."""

    def submit(self, tasks: Sequence[Task]) -> list[str]:
        """Start tasks or queue them; a job's name for each. Raises ExecutorError if it can't."""

    def adopt(self, job: str) -> bool:
        """Take up a job that an earlier driver submitted; False where nothing is known of it."""

    def waits(self, job: str) -> bool:
        """Whether a job is known to be queued: not begun yet, or again, as its node was lost."""

    def ended(self) -> Mapping[str, End]:
        """The jobs that ended since the last call; asks and returns at once."""

    def end(self, job: str) -> None:
        """End a job and all its processes: SIGTERM, and SIGKILL after some seconds.

        Returns when nothing of it runs any more, as far as can be seen from here; its end is
        among those of the next `ended`. A job that has ended already is left alone.
        """

    def close(self) -> None:
        """End every job that doesn't outlive its driver."""
