"""A queue of tasks: each is done once, after what it needs, and repeated where that may help.

The store says whether a task is done, never the way in which its command ended. A process with a
queue can therefore be killed at any moment: the next one finds what is done, waits for what other
processes do, and resumes the rest.
"""

from __future__ import annotations

import re
import signal
import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from enum import StrEnum
from heapq import heapify, heapreplace
from pathlib import Path
from typing import Any

from rich.markup import escape

from sage_cli import errors
from sage_cli.errors import EXIT_BUSY, SageError
from sage_cli.progress import Progress, RunningTask, TaskStatus
from sage_cli.store.files import TornError, read_object, write_json, write_object
from sage_cli.store.locks import is_held, writer_of
from sage_cli.trials.executors.executor import Command, End, Executor, Fate
from sage_cli.trials.task import CHECKPOINTS, DONE, EVALUATE, FAILED, RL, SFT, Task, cost_of

LINES = 12
"""How many of a log's last lines are shown."""
_TAIL_BYTES = 8192
_MARKUP = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]|[╭╮╰╯│─]")


class Kind(StrEnum):
    """The classes of failures."""

    MEMORY = "out of memory"
    TIMEOUT = "timeout"
    DIVERGED = "diverged"
    KILLED = "killed"
    REFUSED = "refused"
    ERROR = "error"


@dataclass(frozen=True)
class Failure:
    """A class, a sentence, and the last lines of the log."""

    kind: Kind
    reason: str
    lines: tuple[str, ...] = ()

    def __str__(self) -> str:
        return f"{self.kind}: {self.reason}"


def failure(end: End, manifest: Mapping[str, Any], log: Path) -> Failure:
    """Return the failure of a task from its executor, its run's manifest and its log.

    `manifest` is {} if the task did not start or resume its run.
    """
    lines = last_lines(log)
    reason = str(manifest.get("reason") or "")
    kind = _kind(end, manifest, lines)
    if kind is Kind.TIMEOUT:
        return Failure(kind, "it took longer than executor.minutes allows", lines)
    if kind is Kind.KILLED:
        return Failure(kind, _killed(end), lines)
    return Failure(kind, reason or _last_message(lines) or f"exit code {end.code}", lines)


def _kind(end: End, manifest: Mapping[str, Any], lines: Sequence[str]) -> Kind:
    raised = getattr(errors, str(manifest.get("error")), None)
    if end.fate is Fate.TIMEOUT:
        return Kind.TIMEOUT
    if manifest.get("status") == "failed" and raised is errors.DivergedError:
        return Kind.DIVERGED
    if raised is errors.TrainingError:
        return Kind.ERROR
    if raised is errors.OutOfMemoryError or errors.is_out_of_memory("\n".join(lines)):
        return Kind.MEMORY
    if end.fate in (Fate.KILLED, Fate.LOST, Fate.ENDED):
        return Kind.KILLED
    return Kind.REFUSED if end.code == errors.EXIT_USER else Kind.ERROR


def _killed(end: End) -> str:
    if end.fate is Fate.LOST:
        return "its end is unknown: the node or the process that ran it is gone"
    if end.fate is Fate.ENDED:
        return "it was ended from outside"
    number = -end.code if end.code is not None and end.code < 0 else (end.code or 0) - 128
    name = signal.Signals(number).name if number in set(signal.Signals) else "a signal"
    short = " (so does the kernel where memory is short)" if name == "SIGKILL" else ""
    return f"{name} ended it from outside{short}"


def last_lines(log: Path) -> tuple[str, ...]:
    """The last lines of a log that are not empty, without colours and frames."""
    try:
        with log.open("rb") as handle:
            handle.seek(max(0, log.stat().st_size - _TAIL_BYTES))
            text = handle.read().decode(errors="replace")
    except OSError:
        return ()
    plain = (_MARKUP.sub("", line).strip() for line in text.splitlines())
    return tuple(line for line in plain if line)[-LINES:]


def _last_message(lines: Sequence[str]) -> str:
    """The text of the last error panel, or the last line."""
    titles = [number for number, line in enumerate(lines) if line == "error"]
    return " ".join(lines[titles[-1] + 1 :]) if titles else (lines[-1] if lines else "")


def all_failed(reasons: Iterable[str], logs: Path) -> errors.TrainingError:
    """The error of a suite or a sweep without a result: every trial failed for these reasons."""
    return errors.TrainingError(
        "\n".join(["every trial failed", *dict.fromkeys(reasons)]),
        f"read the logs in {logs}; the same command tries again",
    )


def write_failures(file: Path, failures: Mapping[str, Failure]) -> None:
    """Write by task why it was given up."""
    write_object(file, {name: asdict(why) for name, why in failures.items()})


def stored_failures(file: Path) -> dict[str, str]:
    """Return the stored failures by task; {} if the file is missing or torn."""
    try:
        return {
            name: f"{why['kind']}: {why['reason']}" for name, why in read_object(file, "").items()
        }
    except (OSError, TornError, TypeError, KeyError):
        return {}


BOARD_S = 1.0
"""Between two updates of the board."""
SURE_STEP, FEWEST_STEPS = 10, 3
"""The step, and the number of steps that were seen, from which on their pace is known."""
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


TRANSIENT = (Kind.MEMORY, Kind.TIMEOUT, Kind.KILLED, Kind.ERROR)
"""Failures that another attempt may not meet; the others would only be repeated."""
CHECK_QUEUED_S = 30.0
"""Between two checks for queued jobs whose tasks are done."""
POLL_S = 0.25
"""Between two checks for jobs that ended."""


class TaskQueue:
    """Tasks that wait or run. `folder` holds a configuration and a log for each.

    Jobs that outlive this process are listed in jobs.json, where the next one finds them.
    """

    def __init__(
        self, executor: Executor, folder: Path, retries: int, listener: TaskProgress
    ) -> None:
        # absolute: a cluster runs commands in folders of its own
        self._executor, self._folder = executor, folder.resolve()
        self._retries, self._listener = retries, listener
        self._due: dict[str, Task] = {}
        self._elsewhere: set[str] = set()  # names of due tasks that another process does
        self._running: dict[str, Task] = {}  # by job
        self._given_up: dict[str, Failure] = {}
        self._tries: Counter[str] = Counter()
        # jobs of an earlier process, until their tasks are added
        self._adoptable = {job: name for job, name in self._jobs().items() if executor.adopt(job)}
        self._unclaimed: dict[str, End] = {}  # ends of such jobs
        self._superfluous: set[str] = set()  # jobs whose tasks are done
        self._written: dict[str, str] | None = None
        self._checked_s = 0.0

    @property
    def running(self) -> tuple[Task, ...]:
        """The tasks that run."""
        return tuple(self._running.values())

    @property
    def places(self) -> int:
        """Return how many tasks may run at the same time."""
        return self._executor.places

    @property
    def idle(self) -> bool:
        """Return True if nothing is due or runs."""
        return not self._due and not self._running

    @property
    def has_room(self) -> bool:
        """Return True if there is a place for more than what is due."""
        waiting = set(self._due) - self._elsewhere
        return not waiting and len(self._running) < self._executor.places

    def run(
        self,
        progress: TaskProgress,
        *,
        further: Callable[[], bool] = lambda: False,
        enough: Callable[[], bool] = lambda: False,
        check: Callable[[], None] = lambda: None,
    ) -> None:
        """Advance until nothing is left, or until `enough` returns True.

        Where a place is free, `further` may add tasks, and returns True if it did. `check` is
        called from time to time while tasks run.
        """
        while True:
            self.advance()
            while self.has_room and further():
                self.advance()
            if self.idle or enough():
                return
            check()
            progress.show(self.running, self.places)
            time.sleep(POLL_S)

    def add(self, task: Task) -> None:
        """Make a task due, after what it needs, unless its result is stored."""
        if task.name in self._due or task.name in self._running_names:
            return
        # several where an earlier driver died between submitting and listing, and submitted again:
        # one is kept, the others are ended
        jobs = [job for job, name in self._adoptable.items() if name == task.name]
        for job in jobs:
            del self._adoptable[job]
        if self._is_settled(task):
            self._superfluous.update(jobs)
            return
        if task.needs is not None and not _is_done(task.needs):
            self.add(task.needs)
        self._due[task.name] = task
        if jobs:
            self._begin(jobs[0], task)
            self._superfluous.update(jobs[1:])

    def advance(self) -> None:
        """Settle what ended, and start what there are places for."""
        # an adopted job may have ended before its task was added: its end waits here
        ended = {**self._unclaimed, **self._executor.ended()}
        self._end_superfluous(ended)
        self._unclaimed = {job: end for job, end in ended.items() if job in self._adoptable}
        for job, end in ended.items():
            task = self._running.pop(job, None)
            if task is not None:  # None: it was cancelled, or its task was not added yet
                self._settle(task, end)
        batch: list[Task] = []
        for task in list(self._due.values()):
            busy = [*self._running.values(), *batch]
            if len(busy) >= self._executor.places or any(other.alone for other in busy):
                break
            if not (task.alone and busy) and self._ready(task):
                batch.append(task)
        if batch:
            commands = [self._command(task) for task in batch]
            # in one call, since a cluster takes an array of jobs as quickly as one
            for job, task in zip(self._executor.submit(commands), batch, strict=True):
                self._begin(job, task)
        if batch or ended:
            self._write_jobs()

    def cancel(self, chosen: Callable[[Task], bool]) -> list[Task]:
        """End the chosen tasks, due or running, without telling the listener; returns them."""
        due = [task for task in self._due.values() if chosen(task)]
        running = {job: task for job, task in self._running.items() if chosen(task)}
        for task in due:
            del self._due[task.name]
        for job in running:
            del self._running[job]
        self._executor.end(*running)
        return [*due, *running.values()]

    def close(self) -> None:
        """End every job that does not outlive this process; the others are listed, and run on."""
        self._executor.close()
        if not self._executor.outlives:
            self._running.clear()
        self._write_jobs()

    @property
    def _running_names(self) -> set[str]:
        return {task.name for task in self._running.values()}

    def _log(self, task: Task) -> Path:
        return self._folder / f"{task.name}.log"

    def _end_superfluous(self, ended: Mapping[str, End]) -> None:
        """End jobs whose tasks are done: left by an earlier process, or queued again by Slurm."""
        self._executor.end(*self._superfluous.difference(ended))
        self._superfluous.clear()
        if time.monotonic() - self._checked_s < CHECK_QUEUED_S:
            return
        self._checked_s = time.monotonic()
        for job, task in self._running.items():
            # Slurm may queue a job again after its node failed, although its command had finished:
            # it would start, find everything done, and hold a GPU meanwhile
            if job not in ended and self._executor.waits(job) and task.done():
                self._executor.end(job)  # the next `ended` tells its end

    def _ready(self, task: Task) -> bool:
        """Return True if a due task can start; one that others have done meanwhile is settled."""
        needs = task.needs
        if needs is not None and needs.name in self._given_up:
            del self._due[task.name]
            self._give_up(task, self._given_up[needs.name])
            return False
        if needs is not None and (needs.name in self._due or needs.name in self._running_names):
            return False
        # another command, of this host or another, trains the same run: two suites may share an
        # initial policy. Its result counts for both.
        if task.run is not None and is_held(task.run.folder):
            self._leave(task)
            return False
        if task.name in self._elsewhere:
            self._elsewhere.discard(task.name)
            if self._is_settled(task):
                del self._due[task.name]
                return False
        return True

    def _begin(self, job: str, task: Task) -> None:
        del self._due[task.name]
        task.began, task.since_s = task.started, time.monotonic()
        self._running[job] = task

    def _settle(self, task: Task, end: End) -> None:
        if self._is_settled(task):
            return
        # the command lost the race for the run's lock after `_ready` had found it free: no failure,
        # and no try is counted
        is_busy = (end.fate, end.code) == (Fate.EXITED, EXIT_BUSY)
        # a disk that fails for now has the same code; without a writer to wait for it is a failure
        if is_busy and task.run is not None and is_held(task.run.folder):
            self._due[task.name], task.since_s = task, None
            self._leave(task)
            return
        # a manifest that this attempt did not touch tells of an earlier one
        manifest = task.run.known if task.run and task.started != task.began else {}
        why = failure(end, manifest, self._log(task))
        self._tries[task.name] += 1
        if why.kind in TRANSIENT and self._tries[task.name] <= self._retries:
            self._due = {task.name: task, **self._due}  # before all others
            self._listener.failed(task, why, self._log(task), again=True)
        else:
            self._give_up(task, why)

    def _is_settled(self, task: Task) -> bool:
        """Return True if a task is done, or given up because its result cannot be read."""
        try:
            if not task.done():
                return False
        except SageError as error:
            self._give_up(task, Failure(Kind.REFUSED, error.cause))
        else:
            self._listener.done(task)
        return True

    def _leave(self, task: Task) -> None:
        """Leave the task to the process that holds its run."""
        if task.name not in self._elsewhere:
            self._elsewhere.add(task.name)
            who = task.run and writer_of(task.run.folder)
            self._listener.waits(task, who or "another process")

    def _give_up(self, task: Task, why: Failure) -> None:
        self._given_up[task.name] = why
        self._listener.failed(task, why, self._log(task), again=False)

    def _command(self, task: Task) -> Command:
        file = self._folder / f"{task.name}.json"
        write_json(file, task.config.model_dump(mode="json"))
        return task.command(file, self._log(task))

    def _jobs(self) -> dict[str, str]:
        """The jobs that an earlier process left: job -> task's name."""
        path = self._folder / "jobs.json"
        remedy = "end the jobs (squeue, scancel), remove the file, and type the same command again"
        return read_object(path, remedy) if path.is_file() else {}

    def _write_jobs(self) -> None:
        if self._executor.outlives:
            running = {job: task.name for job, task in self._running.items()}
            left = {j: name for j, name in self._adoptable.items() if j not in self._unclaimed}
            if (jobs := {**left, **running}) != self._written:
                write_json(self._folder / "jobs.json", jobs)
                self._written = jobs


def _is_done(task: Task) -> bool:
    """Return True if a task is known to be done; if that cannot be told, `add` looks at it."""
    try:
        return task.done()
    except SageError:
        return False


def run_tasks(
    tasks: Sequence[Task],
    executor: Executor,
    folder: Path,
    retries: int,
    progress: Progress,
    ended: Callable[[str, str], None] = lambda *_: None,
) -> dict[str, Failure]:
    """Do all tasks; return by name why some were given up.

    `folder` holds their configurations and logs. `ended` is told each task's name and its end.
    """
    board = TaskProgress(progress, len(tasks), ended)
    queue = TaskQueue(executor, folder, retries, board)
    try:
        for task in tasks:
            board.expect(task)
            queue.add(task)
        queue.run(board)
    finally:
        queue.close()
        board.close()
    return board.failures
