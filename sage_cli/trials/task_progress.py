"""The board of a queue: what is done, what runs, and how long the rest will take."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from heapq import heapify, heapreplace
from pathlib import Path

from rich.markup import escape

from sage_cli.progress import Progress, RunningTask, TaskStatus
from sage_cli.trials.cost import cost_of
from sage_cli.trials.failures import Failure
from sage_cli.trials.task import CHECKPOINTS, DONE, EVALUATE, FAILED, RL, SFT, Task

SURE_STEP, FEWEST_STEPS = 10, 3
"""The step, and the number of steps that were seen, from which on their pace is known."""


BOARD_S = 1.0
"""Between two updates of the board."""
LATE = 0.05
"""The time left of a task that should have ended, as a share of its age."""
MEASURING = 0.3
"""The pace of what only measures before one has ended, as a share of the fastest training's."""


def work_of(task: Task) -> tuple[str, int]:
    """Return what a task does, as far as its pace goes, and how many completions (or steps)."""
    work = cost_of(task)
    kind = EVALUATE if task.kind == CHECKPOINTS else task.kind
    return kind, work.completions or work.steps or 1


class TaskProgress:
    """Is told what becomes of tasks: counts those that are expected, and prints the rest.

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
        self._expected: dict[str, tuple[str, int]] = {}  # name -> work
        self._settled: set[str] = set()
        self.done_count = self.failed_count = self.pruned_count = 0
        self.best: str | None = None
        self.failures: dict[str, Failure] = {}
        self._spent: dict[str, tuple[float, int]] = {}  # kind -> seconds and size of what ended
        self._seen: dict[str, tuple[int, float]] = {}  # name -> the first step that was seen, when
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
        self._expected[task.name] = work_of(task)

    def done(self, task: Task) -> None:
        """A task's result is stored, now or from before."""
        self._count(task)

    def _count(self, task: Task, result: str = "") -> None:
        """Count a task that is done, and print it with `result`, which sums it up."""
        self.done_count += 1
        self._settled.add(task.name)
        self._ended(task.name, DONE)
        if task.since_s is not None:
            kind, size = work_of(task)
            seconds, ended = self._spent.get(kind, (0.0, 0))
            self._spent[kind] = seconds + time.monotonic() - task.since_s, ended + size
        line = f"{task.title}: {result}" if result else task.title
        before = "" if task.since_s is not None else ", found in the store"
        self._progress.say(f"[green]done[/]: {escape(line)}{before}")

    def failed(self, task: Task, why: Failure, log: Path, *, again: bool) -> None:
        """A task left no result."""
        self._seen.pop(task.name, None)
        if not again:
            self._settled.add(task.name)
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
        states = [self._with_time(task.name, _running(task)) for task in tasks]
        status = TaskStatus(
            total=self.total + needed,
            done=self.done_count,
            failed=self.failed_count,
            pruned=self.pruned_count,
            running=tuple(states),
            best=self.best,
            left_s=self._left_s(tasks, states, places),
        )
        self._progress.board(status)

    def _with_time(self, name: str, state: RunningTask) -> RunningTask:
        """Return a running task with the time that its steps take at the pace of those seen."""
        if state.step is None or not state.of:
            return state
        first, began_s = self._seen.setdefault(name, (state.step, time.monotonic()))
        if state.step < SURE_STEP or state.step - first < FEWEST_STEPS:
            return state
        step_s = (time.monotonic() - began_s) / (state.step - first)
        return replace(state, left_s=step_s * (state.of - state.step))

    def _left_s(
        self, tasks: Sequence[Task], states: Sequence[RunningTask], places: int
    ) -> float | None:
        """Return the time until all is done, by the pace of ended tasks and of running ones' steps.

        None while a training that is due is of a kind of which nothing is known.
        """
        pace = {kind: seconds / size for kind, (seconds, size) in self._spent.items()}
        current = [self._expected.get(task.name) or work_of(task) for task in tasks]
        for (kind, size), state in zip(current, states, strict=True):
            if state.left_s is not None:
                pace.setdefault(kind, (state.since_s + state.left_s) / size)
        gone = self._settled.union(task.name for task in tasks)
        due = [expected for name, expected in self._expected.items() if name not in gone]
        count = max(0, self.left - sum(task.name in self._expected for task in tasks))
        trainings = [size for kind, size in (*self._expected.values(), *current) if kind == RL]
        due = [*due, *[(RL, max(trainings, default=1))] * count][:count]
        if not pace or {kind for kind, _ in (*due, *current)} & {SFT, RL} - {*pace}:
            return None
        measuring = MEASURING * min(pace.values())
        lefts = []
        for (kind, size), state in zip(current, states, strict=True):
            left_s = max(state.left_s or 0.0, pace.get(kind, measuring) * size - state.since_s)
            lefts.append(left_s if left_s > 0 else LATE * state.since_s)
        ends = [*lefts, *[0.0] * (max(1, min(places, self.total)) - len(lefts))]
        heapify(ends)
        for kind, size in due:  # where the first place becomes free
            heapreplace(ends, ends[0] + pace.get(kind, measuring) * size)
        return max(ends)

    def close(self) -> None:
        """Leave the board as it is."""
        self._progress.end()

    def _say(self, colour: str, label: str, line: str) -> None:
        self._progress.say(f"[{colour}]{label}[/]: {escape(line)}")


def _running(task: Task) -> RunningTask:
    begun = task.run is not None and task.started != task.began
    last = (task.run.metrics.read() or [{}])[-1] if task.run and begun else {}
    age_s = time.monotonic() - (task.since_s or 0.0)
    return RunningTask(task.title, last.get("step"), last.get("of"), age_s)
