"""Has works done by an executor: each once, after what it needs, again where that may help.

Whether one is done is read from the store, never from how its task ended. So whoever has a queue
can be killed at any moment: the next one finds what is done, waits for what others work on, and
goes on with the rest.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Protocol

from sage_cli.executors.executor import End, Executor, Task
from sage_cli.executors.failures import Failure, Kind, failure
from sage_cli.executors.work import Work
from sage_cli.store.atomic import write_json
from sage_cli.store.json_object import read_object
from sage_cli.store.lock import is_held

AGAIN = (Kind.MEMORY, Kind.TIMEOUT, Kind.KILLED, Kind.ERROR)
"""Failures that another attempt may not meet; the others would only be repeated."""


class Listener(Protocol):
    """Is told what becomes of works."""

    def done(self, work: Work) -> None:
        """A work's result is in the store; `since_s` is None where it was there before."""

    def failed(self, work: Work, why: Failure, log: Path, *, again: bool) -> None:
        """A task left no result, and is tried `again` or given up; `log` is what it printed."""


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
        self._adoptable = self._jobs()

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
        if work.done():
            self._listener.done(work)
            return
        if work.needs is not None and not work.needs.done():
            self.add(work.needs)
        self._due[work.name] = work
        for job in [job for job, name in self._adoptable.items() if name == work.name]:
            del self._adoptable[job]
            if work.name in self._due and self._executor.adopt(self._task(work), job):
                self._begin(job, work)

    def advance(self) -> None:
        """Settle what ended, and start what there are places for."""
        ended = self._executor.ended()
        for job, end in ended.items():
            work = self._running.pop(job, None)
            if work is not None:  # None: it was cancelled
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
            self._elsewhere.add(work.name)
            return False
        if work.name in self._elsewhere:
            self._elsewhere.discard(work.name)
            if work.done():
                del self._due[work.name]
                self._listener.done(work)
                return False
        return True

    def _begin(self, job: str, work: Work) -> None:
        del self._due[work.name]
        work.began, work.since_s = work.started, time.monotonic()
        self._running[job] = work

    def _settle(self, work: Work, end: End) -> None:
        if work.done():
            self._listener.done(work)
            return
        manifest = work.run.manifest if work.run and work.started != work.began else {}
        why = failure(end, manifest, self._log(work))
        self._tries[work.name] += 1
        if why.kind in AGAIN and self._tries[work.name] <= self._retries:
            self._due = {work.name: work, **self._due}  # before all others
            self._listener.failed(work, why, self._log(work), again=True)
        else:
            self._give_up(work, why)

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
            write_json(self._folder / "jobs.json", {**self._adoptable, **kept})
