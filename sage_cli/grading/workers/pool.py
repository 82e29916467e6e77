"""Worker processes that answer within a deadline or are replaced."""

from __future__ import annotations

import os
import selectors
import threading
import time
import weakref
from collections import deque
from collections.abc import Callable, Sequence
from typing import Any

from sage_cli.grading.grades import Judged, Status
from sage_cli.grading.workers.process import WorkerProcess

_STARTS = 3
"""Workers that may die before they are ready until the rest of a call is given up."""


class WorkerPool:
    """At most `workers` processes, started when there is something to do, kept between calls.

    `start` makes one. `failure` says why the last call's first answer has no status, where the
    judge is another package's and failed.
    """

    def __init__(self, workers: int, start: Callable[[], WorkerProcess]) -> None:
        self.workers = workers
        self._start = start
        self.failure: str | None = None
        self._lock = threading.Lock()
        self._pool: list[WorkerProcess] = []
        self._owner = os.getpid()
        self._finalizer = weakref.finalize(self, _kill_all, self._pool, self._owner)

    @property
    def pids(self) -> list[int]:
        """The process ids of the workers."""
        return [worker.pid for worker in self._pool]

    def run(self, tasks: Sequence[dict[str, Any]], timeout_s: float) -> list[Judged]:
        """A status or share for each task, in order; a task that takes longer is `timeout`.

        Calls from several threads take turns.
        """
        with self._lock:
            if os.getpid() != self._owner:  # forked: these workers are the parent's
                self._pool, self._owner = [], os.getpid()
                self._finalizer = weakref.finalize(self, _kill_all, self._pool, self._owner)
            run = _Run(self._pool, tasks, timeout_s, self._start)
            judged = run.finish(min(self.workers, len(tasks)))
            self.failure = run.failure
            return judged

    def close(self) -> None:
        """End all workers; the pool starts new ones when it is used again."""
        with self._lock:
            _kill_all(self._pool, self._owner)


class _Run:
    """One call: which tasks wait, which worker has which, what came back."""

    def __init__(
        self,
        pool: list[WorkerProcess],
        tasks: Sequence[dict[str, Any]],
        timeout_s: float,
        start: Callable[[], WorkerProcess],
    ) -> None:
        self.pool, self.tasks, self.timeout_s, self.start = pool, tasks, timeout_s, start
        self.waiting = deque(range(len(tasks)))
        self.judged: list[Judged | None] = [None] * len(tasks)
        self.failed_starts = 0
        self.failure: str | None = None
        self.selector = selectors.DefaultSelector()

    def finish(self, workers: int) -> list[Judged]:
        for worker in self.pool:
            self.selector.register(worker, selectors.EVENT_READ)
        try:
            while None in self.judged:
                while len(self.pool) < workers and self.failed_starts < _STARTS:
                    self._start()
                if not self.pool:
                    break
                self._hand_out()
                self._wait()
        finally:
            self.selector.close()
            for worker in [worker for worker in self.pool if worker.task is not None]:
                self.pool.remove(worker)
                worker.kill()
        return ["error" if found is None else found for found in self.judged]

    def _start(self) -> None:
        try:
            worker = self.start()
        except OSError:  # no memory, no processes left
            self.failed_starts += 1
            return
        self.pool.append(worker)
        self.selector.register(worker, selectors.EVENT_READ)

    def _hand_out(self) -> None:
        for worker in self.pool:
            if self.waiting and worker.ready and worker.task is None:
                number = self.waiting.popleft()
                worker.send(number, self.tasks[number], self.timeout_s)

    def _wait(self) -> None:
        next_deadline = min(worker.deadline for worker in self.pool)
        for key, _ in self.selector.select(max(0.0, min(next_deadline - time.monotonic(), 60.0))):
            worker = key.fileobj
            assert isinstance(worker, WorkerProcess)
            reply = worker.receive()
            if reply is None:
                self._replace(worker, "error")
            elif reply:
                self._note(worker, reply)
        now = time.monotonic()
        for worker in [worker for worker in self.pool if worker.deadline <= now]:
            self._replace(worker, "timeout")

    def _note(self, worker: WorkerProcess, reply: dict[str, Any]) -> None:
        if worker.task is not None:
            self.judged[worker.task] = reply["judged"]
            self.failure = self.failure or reply.get("failure")
        worker.idle()
        self.failed_starts = 0
        if reply.get("spent"):
            self._remove(worker)

    def _replace(self, worker: WorkerProcess, status: Status) -> None:
        if worker.task is not None:
            self.judged[worker.task] = status
        elif not worker.ready:
            self.failed_starts += 1
        self._remove(worker)

    def _remove(self, worker: WorkerProcess) -> None:
        self.selector.unregister(worker)
        self.pool.remove(worker)
        worker.kill()
        if None not in self.judged and not self.failed_starts:
            self._start()  # to be ready by the next call


def _kill_all(pool: list[WorkerProcess], owner: int) -> None:
    if os.getpid() == owner:
        for worker in pool:
            worker.kill()
    pool.clear()
