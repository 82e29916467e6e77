"""Progress of tasks for people: a line as each ends, and a board of those that run."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from pathlib import Path

from rich.markup import escape

from sage_cli.progress import Progress, RunningTask, TaskStatus
from sage_cli.trials.failures import Failure
from sage_cli.trials.task import DONE, FAILED, Task

BOARD_S = 1.0
"""Between two updates of the board."""


class TaskProgress:
    """Counts the expected tasks, and prints what becomes of them.

    `total` is how many there will be at least, as far as that is known beforehand. `failures` says
    by name why tasks were given up. `best` is the best trial so far, for the board. `ended` is told
    the name of each task that ended and how.
    """

    def __init__(
        self,
        progress: Progress,
        total: int = 0,
        ended: Callable[[str, str], None] = lambda *_: None,
    ) -> None:
        self._progress, self._total, self._ended = progress, total, ended
        self._expected: set[str] = set()
        self.done_count = self.failed_count = self.pruned_count = 0
        self.best: str | None = None
        self.failures: dict[str, Failure] = {}
        self._seconds: list[float] = []
        self._shown_s = 0.0

    @property
    def total(self) -> int:
        """Return the number of known tasks, without the tasks that they need."""
        return max(self._total, len(self._expected))

    @property
    def left(self) -> int:
        """Return the number of tasks that have not ended."""
        ended = self.done_count + self.failed_count + self.pruned_count
        return max(0, self.total - ended)

    def expect(self, task: Task) -> None:
        """Count one more task."""
        self._expected.add(task.name)

    def done(self, task: Task, result: str = "") -> None:
        """A task's result is stored, now or from before; `result` sums it up."""
        self.done_count += 1
        self._ended(task.name, DONE)
        if task.since_s is not None:
            self._seconds.append(time.monotonic() - task.since_s)
        line = f"{task.title}: {result}" if result else task.title
        before = "" if task.since_s is not None else ", found in the store"
        self._progress.say(f"[green]done[/]: {escape(line)}{before}")

    def failed(self, task: Task, why: Failure, log: Path, *, again: bool) -> None:
        """A task left no result."""
        if not again:
            self.failures[task.name] = why
            self._ended(task.name, FAILED)
            self.failed_count += task.name in self._expected
        then = "; it is retried" if again else f"; its log: {log}"
        self._say("red", why.kind, f"{task.title}: {why.reason}{then}")

    def refused(self, title: str, why: Failure, count: int) -> None:
        """The `count` tasks of a trial cannot start, since its settings contradict each other."""
        self.failed_count += count
        self._say("red", why.kind, f"{title}: {why.reason}")

    def waits(self, task: Task, who: str) -> None:
        """Another process does the task; this one continues when that has ended."""
        self._say("yellow", "waiting", f"{task.title}, run by {who}")

    def pruned(self, task: Task, reason: str, count: int = 1) -> None:
        """A trial of `count` tasks was ended because it lagged behind."""
        self.pruned_count += count
        self._say("yellow", "pruned", f"{task.title}: {reason}")

    def show(self, running: Iterable[Task], places: int) -> None:
        """Show what runs, at most once in BOARD_S."""
        if time.monotonic() - self._shown_s < BOARD_S:
            return
        self._shown_s = time.monotonic()
        tasks = tuple(running)
        needed = sum(task.name not in self._expected for task in tasks)
        mean = sum(self._seconds) / len(self._seconds) if self._seconds else None
        status = TaskStatus(
            total=self.total + needed,
            done=self.done_count,
            failed=self.failed_count,
            pruned=self.pruned_count,
            running=tuple(map(_running, tasks)),
            best=self.best,
            left_s=None if mean is None else mean * self.left / max(1, min(places, self.left)),
        )
        self._progress.board(status)

    def close(self) -> None:
        """Leave the board as it is."""
        self._progress.end()

    def _say(self, colour: str, what: str, line: str) -> None:
        self._progress.say(f"[{colour}]{what}[/]: {escape(line)}")


def _running(task: Task) -> RunningTask:
    begun = task.run is not None and task.started != task.began
    last = (task.run.metrics.read() or [{}])[-1] if task.run and begun else {}
    age_s = time.monotonic() - (task.since_s or 0.0)
    return RunningTask(task.title, last.get("step"), last.get("of"), last.get("reward"), age_s)
