"""Has works done by an executor: each once, after what it needs, again where that may help.

Whether one is done is read from the store, never from how its task ended. So whoever has a queue
can be killed at any moment: the next one finds what is done, waits for what others work on, and
goes on with the rest.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Container
from pathlib import Path
from typing import Protocol

from sage_cli.errors import EXIT_BUSY, SageError
from sage_cli.executors.executor import End, Executor, Fate, Task
from sage_cli.executors.failures import Failure, Kind, failure
from sage_cli.executors.work import Work
from sage_cli.store.atomic import write_json
from sage_cli.store.json_files import read_object
from sage_cli.store.lock import is_held, writer_of

AGAIN = (Kind.MEMORY, Kind.TIMEOUT, Kind.KILLED, Kind.ERROR)
"""Failures that another attempt may not meet; the others would only be repeated."""

LOOK_S = 30.0
"""From one look for queued jobs whose works are done to the next."""


class Listener(Protocol):
    """Is told what becomes of works."""

    def done(self, work: Work) -> None:
        """A work's result is in the store; `since_s` is None where it was there before."""

    def failed(self, work: Work, why: Failure, log: Path, *, again: bool) -> None:
        """A task left no result, and is tried `again` or given up; `log` is what it printed."""

    def waits(self, work: Work, who: str) -> None:
        """A work is left until `who`, another process that is at it, has ended."""


class WorkQueue:
    """Works that wait or run. `folder` holds a configuration and a log for each.

    Jobs that outlive this process are kept in jobs.json, where the next one finds them.
    """

    def __init__(self, executor: Executor, folder: Path, retries: int, listener: Listener) -> None:
        # absolute: a cluster runs tasks in folders of its own
        self._executor, self._folder = executor, folder.resolve()
        self._retries, self._listener = retries, listener
        self._due: dict[str, Work] = {}
        self._elsewhere: set[str] = set()
        self._running: dict[str, Work] = {}
        self._given_up: dict[str, Failure] = {}
        self._tries: Counter[str] = Counter()
        self._adoptable = {job: name for job, name in self._jobs().items() if executor.adopt(job)}
        self._unclaimed: dict[str, End] = {}
        self._superfluous: set[str] = set()
        self._kept: dict[str, str] | None = None
        self._looked_s = 0.0

    @property
    def running(self) -> tuple[Work, ...]:
        """The works under way."""
        return tuple(self._running.values())

    @property
    def places(self) -> int:
        """How many may be under way."""
        return self._executor.places

    @property
    def idle(self) -> bool:
        """Whether nothing is due or under way."""
        return not self._due and not self._running

    @property
    def has_room(self) -> bool:
        """Whether there is a place for more than what is due."""
        waiting = set(self._due) - self._elsewhere
        return not waiting and len(self._running) < self._executor.places

    @property
    def _running_names(self) -> set[str]:
        return {work.name for work in self._running.values()}

    def _log(self, work: Work) -> Path:
        return self._folder / f"{work.name}.log"

    def add(self, work: Work) -> None:
        """Make a work due, after what it needs, unless its result is in the store."""
        if work.name in self._due or work.name in self._running_names:
            return
        jobs = [job for job, name in self._adoptable.items() if name == work.name]
        for job in jobs:
            del self._adoptable[job]
        if self._is_settled(work):
            self._superfluous.update(jobs)
            return
        if work.needs is not None and not _is_done(work.needs):
            self.add(work.needs)
        self._due[work.name] = work
        if jobs:
            self._begin(jobs[0], work)
            self._superfluous.update(jobs[1:])

    def advance(self) -> None:
        """Settle what ended, and start what there are places for."""
        ended = {**self._unclaimed, **self._executor.ended()}
        self._end_superfluous(ended)
        self._unclaimed = {job: end for job, end in ended.items() if job in self._adoptable}
        for job, end in ended.items():
            work = self._running.pop(job, None)
            if work is not None:  # None: it was cancelled, or nobody has asked for it yet
                self._settle(work, end)
        batch: list[Work] = []
        for work in list(self._due.values()):
            if len(self._running) + len(batch) >= self._executor.places:
                break
            if self._ready(work):
                batch.append(work)
        if batch:
            tasks = [self._task(work) for work in batch]
            for job, work in zip(self._executor.submit(tasks), batch, strict=True):
                self._begin(job, work)
        if batch or ended:
            self._keep_jobs()

    def cancel(self, chosen: Callable[[Work], bool]) -> list[Work]:
        """End the chosen works, begun or not, without telling the listener. Returns those."""
        due = [work for work in self._due.values() if chosen(work)]
        running = {job: work for job, work in self._running.items() if chosen(work)}
        for work in due:
            del self._due[work.name]
        for job in running:
            del self._running[job]
            self._executor.end(job)
        return [*due, *running.values()]

    def close(self) -> None:
        """End every task that doesn't outlive this process; the others are kept, and run on."""
        self._executor.close()
        if not self._executor.outlives:
            self._running.clear()
        self._keep_jobs()

    def _end_superfluous(self, ended: Container[str]) -> None:
        """End jobs whose works are done: left by an earlier driver, or queued again by Slurm."""
        for job in self._superfluous:
            if job not in ended:
                self._executor.end(job)
        self._superfluous.clear()
        if time.monotonic() - self._looked_s < LOOK_S:
            return
        self._looked_s = time.monotonic()
        for job, work in self._running.items():
            if job not in ended and self._executor.waits(job) and work.done():
                self._executor.end(job)  # its end is heard of next

    def _ready(self, work: Work) -> bool:
        """Whether a due work can begin; one that others have done meanwhile is settled."""
        needs = work.needs
        if needs is not None and needs.name in self._given_up:
            del self._due[work.name]
            self._give_up(work, self._given_up[needs.name])
            return False
        if needs is not None and (needs.name in self._due or needs.name in self._running_names):
            return False
        if work.run is not None and is_held(work.run.folder):
            self._leave(work)
            return False
        if work.name in self._elsewhere:
            self._elsewhere.discard(work.name)
            if self._is_settled(work):
                del self._due[work.name]
                return False
        return True

    def _begin(self, job: str, work: Work) -> None:
        del self._due[work.name]
        work.began, work.since_s = work.started, time.monotonic()
        self._running[job] = work

    def _settle(self, work: Work, end: End) -> None:
        if self._is_settled(work):
            return
        if (end.fate, end.code) == (Fate.EXITED, EXIT_BUSY):
            self._due[work.name], work.since_s = work, None
            self._leave(work)
            return
        manifest = work.run.known if work.run and work.started != work.began else {}
        why = failure(end, manifest, self._log(work))
        self._tries[work.name] += 1
        if why.kind in AGAIN and self._tries[work.name] <= self._retries:
            self._due = {work.name: work, **self._due}  # before all others
            self._listener.failed(work, why, self._log(work), again=True)
        else:
            self._give_up(work, why)

    def _is_settled(self, work: Work) -> bool:
        """Whether a work is done, or given up since what the store has of it can't be read."""
        try:
            if not work.done():
                return False
        except SageError as error:
            self._give_up(work, Failure(Kind.REFUSED, error.cause))
        else:
            self._listener.done(work)
        return True

    def _leave(self, work: Work) -> None:
        """Let the process go on that holds the work's run."""
        if work.name not in self._elsewhere:
            self._elsewhere.add(work.name)
            who = work.run and writer_of(work.run.folder)
            self._listener.waits(work, who or "another process")

    def _give_up(self, work: Work, why: Failure) -> None:
        self._given_up[work.name] = why
        self._listener.failed(work, why, self._log(work), again=False)

    def _task(self, work: Work) -> Task:
        file = self._folder / f"{work.name}.json"
        write_json(file, work.config.model_dump(mode="json"))
        return work.task(file, self._log(work))

    def _jobs(self) -> dict[str, str]:
        """The jobs that an earlier process left: job -> work's name."""
        path = self._folder / "jobs.json"
        remedy = "end the jobs (squeue, scancel), remove the file, and type the same command again"
        return read_object(path, remedy) if path.is_file() else {}

    def _keep_jobs(self) -> None:
        if self._executor.outlives:
            kept = {job: work.name for job, work in self._running.items()}
            left = {j: name for j, name in self._adoptable.items() if j not in self._unclaimed}
            if (jobs := {**left, **kept}) != self._kept:
                write_json(self._folder / "jobs.json", jobs)
                self._kept = jobs


def _is_done(work: Work) -> bool:
    """Whether a work is known to be done; one that can't be told is looked at as all others."""
    try:
        return work.done()
    except SageError:
        return False
