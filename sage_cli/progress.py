"""Messages of a command about its progress."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import Any, Protocol


@dataclass(frozen=True)
class RunningTask:
    """A running task: its name, its step of how many, and its age.

    `left_s` is the time that its steps take, None while it is unknown.
    """

    name: str
    step: int | None = None
    of: int | None = None
    since_s: float = 0.0
    left_s: float | None = None


@dataclass(frozen=True)
class TaskStatus:
    """Progress of the tasks of a sweep or a suite; `total` includes the running ones.

    `best` says which trial leads and with which value; `left_s` is None while it is unknown.
    """

    total: int
    done: int = 0
    failed: int = 0
    pruned: int = 0
    running: tuple[RunningTask, ...] = ()
    best: str | None = None
    left_s: float | None = None

    @property
    def ended(self) -> int:
        """The number of tasks that have ended, with or without a result."""
        return self.done + self.failed + self.pruned


class Progress(Protocol):
    """One bar or board at a time, and lines between them."""

    def say(self, text: str) -> None:
        """Show a line that stays."""

    def doing(self, text: str) -> AbstractContextManager[None]:
        """Show `text` while the block runs, unless it is over at once."""

    def begin(self, title: str, total: int, unit: str, done: int = 0) -> None:
        """Start a bar of `total` units, `done` of which are done."""

    def advance(self, amount: int = 1, **numbers: float) -> None:
        """Advance the bar by `amount`; `numbers` are shown beside it."""

    def board(self, status: TaskStatus) -> None:
        """Show how far tasks are, in the place of what was shown before."""

    def end(self) -> None:
        """Close the bar or board."""


class Silent:
    """A progress that nobody watches."""

    def doing(self, text: str) -> AbstractContextManager[None]:  # noqa: ARG002
        """Return a context that says nothing."""
        return nullcontext()

    def _nothing(self, *_: Any, **__: Any) -> None: ...

    say = begin = advance = board = end = _nothing
