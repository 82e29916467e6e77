"""A queue of tasks: each is done once, after what it needs, and repeated where that may help.

The store says whether a task is done, never the way in which its command ended. A process with a
queue can therefore be killed at any moment: the next one finds what is done, waits for what other
processes do, and resumes the rest.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from sage_cli.errors import EXIT_BUSY, SageError
from sage_cli.progress import Progress
from sage_cli.store.json_files import read_object, write_json
from sage_cli.store.locks import is_held, writer_of
from sage_cli.trials.executors.executor import Command, End, Executor, Fate
from sage_cli.trials.failures import Failure, Kind, failure
from sage_cli.trials.task import Task
from sage_cli.trials.task_progress import TaskProgress

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
        manifest = task.run.try_manifest() if task.run and task.started != task.began else {}
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
