"""What a workflow tells whoever watches it."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import Protocol


@dataclass(frozen=True)
class RunningTask:
    """A running task: its name, its step of how many, its last reward, and its age."""

    name: str
    step: int | None = None
    of: int | None = None
    reward: float | None = None
    since_s: float = 0.0


@dataclass(frozen=True)
class TaskStatus:
    """How far the tasks of a sweep or a suite are.

    `best` is the best trial so far with its value; `left_s` is None while it is unknown.
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
        """How many have ended, with or without a result."""
        return self.done + self.failed + self.pruned


class Progress(Protocol):
    """One bar or board at a time, and lines between them."""

    def say(self, text: str) -> None:
        """A line that stays."""

    def doing(self, text: str) -> AbstractContextManager[None]:
        """Say what is being done inside the block, where that isn't over at once."""

    def begin(self, title: str, total: int, unit: str, done: int = 0) -> None:
        """Start a bar of `total` units, `done` of which are behind us."""

    def advance(self, amount: int = 1, **numbers: float) -> None:
        """Go on by `amount`; `numbers` are shown beside the bar."""

    def board(self, status: TaskStatus) -> None:
        """Show how far tasks are, in the place of what was shown before."""

    def end(self) -> None:
        """Close the bar or board."""


class Silent:
    """Nobody watches."""

    def say(self, text: str) -> None:
        """Say nothing."""

    def doing(self, text: str) -> AbstractContextManager[None]:  # noqa: ARG002
        """Say nothing."""
        return nullcontext()

    def begin(self, title: str, total: int, unit: str, done: int = 0) -> None:
        """Begin nothing."""

    def advance(self, amount: int = 1, **numbers: float) -> None:
        """Show nothing."""

    def board(self, status: TaskStatus) -> None:
        """Show nothing."""

    def end(self) -> None:
        """End nothing."""
