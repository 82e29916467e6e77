"""Progress of a sweep: that of its tasks, with scores, the best cell, and state.json."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path

from sage_cli.progress import Progress
from sage_cli.sweep.folder import SweepFacts, SweepFolder
from sage_cli.sweep.proposal import State
from sage_cli.trials.failures import Failure
from sage_cli.trials.progress import TaskProgress
from sage_cli.trials.task import Task


class SweepProgress(TaskProgress):
    """Keeps state.json true while the sweep is driven; `facts` is what the file begins with."""

    def __init__(
        self, progress: Progress, folder: SweepFolder, facts: SweepFacts, total: int
    ) -> None:
        super().__init__(progress, total)
        self._folder, self._facts, self._highest = folder, facts, float("-inf")
        self._cancelled = self._ended_earlier = 0
        self._write_state()

    def count_earlier(self, states: Sequence[State], each: int) -> None:
        """Count the proposals that ended under an earlier driver, of so many trainings `each`."""
        done, pruned = each * states.count(State.DONE), each * states.count(State.PRUNED)
        self.done_count += done
        self.pruned_count += pruned
        self._ended_earlier = done + pruned
        self._write_state()

    def scored(self, task: Task, values: Sequence[float]) -> None:
        """A cell was trained and measured; the first objective says which is the best."""
        names = self._facts["objectives"]
        result = ", ".join(f"{name} {value:.3f}" for name, value in zip(names, values, strict=True))
        if values[0] > self._highest:
            self._highest, self.best = values[0], f"{task.title}: {result}"
        self.done(task, result)
        self._write_state()

    def failed(self, task: Task, why: Failure, log: Path, *, again: bool) -> None:
        """A task left no result."""
        super().failed(task, why, log, again=again)
        self._write_state()

    def refused(self, title: str, why: Failure, count: int) -> None:
        """The settings of a cell can't both hold: none of its `count` trainings can begin."""
        super().refused(title, why, count)
        self._write_state()

    def pruned(self, task: Task, reason: str, count: int = 1) -> None:
        """A training was ended because it lagged behind, and so `count` of its cell."""
        super().pruned(task, reason, count)
        self._write_state()

    def cancelled(self, going_on: Iterable[Task]) -> None:
        """The driver was asked to stop: what it wanted has no end, unless it goes on by itself."""
        ended = self.done_count + self.failed_count + self.pruned_count - self._ended_earlier
        by_itself = self._expected & {task.name for task in going_on}
        self._cancelled = len(self._expected - by_itself) - ended
        self._progress.say(
            f"[yellow]cancelled[/]: {self._cancelled} trainings; the same command takes them up"
        )
        self._write_state()

    def _write_state(self) -> None:
        cells = {
            "done": self.done_count,
            "failed": self.failed_count,
            "pruned": self.pruned_count,
            "cancelled": self._cancelled,
            "left": self.left - self._cancelled,
        }
        self._folder.write_state({**self._facts, "cells": cells, "best": self.best})
