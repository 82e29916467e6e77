"""Processes that judge untrusted answers: each answers within a deadline or is replaced."""

from __future__ import annotations

import json
import os
import selectors
import subprocess
import sys
import threading
import time
import weakref
from collections import Counter, deque
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from sage_cli.grading.grades import Judged, Status

_PACKAGE_ROOT = str(Path(__file__).resolve().parents[3])
_WORKER = "sage_cli.grading.worker"
_START_S = 120.0


class WorkerProcess:
    """A fresh interpreter: nothing is forked, and the caller's main module is not imported again.

    That makes it work from threads, beside CUDA, in daemonic processes and under launchers.
    It knows one judge, by name, mode and extraction. `deadline` is when it must have answered,
    infinity while it has nothing to do.
    """

    def __init__(self, memory_mb: int, judge: str, mode: str, extract: str = "tags") -> None:
        folders = [folder for folder in sys.path if folder]  # "" is the caller's own folder
        path = os.pathsep.join(filter(None, [_PACKAGE_ROOT, os.environ.get("PYTHONPATH")]))
        self._process = subprocess.Popen(
            [sys.executable, "-P", "-m", _WORKER, str(memory_mb), judge, mode, extract, *folders],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            bufsize=0,
            start_new_session=True,  # Ctrl-C is the parent's business
            env=os.environ | {"PYTHONPATH": path, "OMP_NUM_THREADS": "1"},
        )
        self._received = b""
        self.ready = False
        self.task: int | None = None
        self.deadline = time.monotonic() + _START_S

    @property
    def pid(self) -> int:
        """The process id."""
        return self._process.pid

    def fileno(self) -> int:
        """Return the descriptor of the replies, for selectors."""
        assert self._process.stdout is not None
        return self._process.stdout.fileno()

    def send(self, number: int, task: dict[str, Any], seconds: float) -> None:
        """Hand over a task; what it takes fits into the pipe, so that this doesn't wait.

        A worker that is gone shows as the end of its replies.
        """
        assert self._process.stdin is not None
        self.task, self.deadline = number, time.monotonic() + seconds
        try:
            self._process.stdin.write(json.dumps(task).encode("ascii") + b"\n")
        except BrokenPipeError:
            self.deadline = time.monotonic()

    def receive(self) -> dict[str, Any] | None:
        """Return the next reply, {} when it isn't whole yet, None when the process has ended."""
        chunk = os.read(self.fileno(), 65536)
        if not chunk:
            return None
        self._received += chunk
        line, end, rest = self._received.partition(b"\n")
        if not end:
            return {}
        self._received = rest
        reply: dict[str, Any] = json.loads(line)
        return reply

    def idle(self) -> None:
        """Note that nothing is under way."""
        self.ready, self.task, self.deadline = True, None, float("inf")

    def kill(self) -> None:
        """End it at once and collect it."""
        self._process.kill()
        self._process.wait()
        for pipe in (self._process.stdin, self._process.stdout):
            if pipe is not None:
                pipe.close()


_STARTS = 3
"""Workers that may die before they are ready until the rest of a call is given up."""


_PATIENCE = 4
"""Answers to one gold that may time out in a row until the others aren't tried any more."""


class WorkerPool:
    """At most `workers` processes, started when there is something to do, kept between calls.

    `start` makes one. With `impatient`, a gold is given up whose answers all time out: what is left
    is `timeout` at once. `failure` says why the last call's first answer has no status, where the
    judge is a function of one's own and failed.
    """

    def __init__(
        self, workers: int, start: Callable[[], WorkerProcess], *, impatient: bool = False
    ) -> None:
        self.workers = workers
        self._start = start
        self._timeouts: Counter[str] | None = Counter() if impatient else None
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
        """Return a status or share for each task, in order; a task that takes longer is `timeout`.

        Calls from several threads take turns.
        """
        with self._lock:
            if os.getpid() != self._owner:  # forked: these workers are the parent's
                self._pool, self._owner = [], os.getpid()
                self._finalizer = weakref.finalize(self, _kill_all, self._pool, self._owner)
            run = _Run(self._pool, tasks, timeout_s, self._start, self._timeouts)
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
        timeouts: Counter[str] | None,
    ) -> None:
        self.pool, self.tasks, self.timeout_s, self.start = pool, tasks, timeout_s, start
        self.timeouts = timeouts
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
                if None in self.judged:  # else every task that was left is given up
                    self._wait()
        finally:
            self.selector.close()
            for worker in [worker for worker in self.pool if worker.task is not None]:
                self.pool.remove(worker)
                worker.kill()
        return ["error" if status is None else status for status in self.judged]

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
            while self.waiting and worker.ready and worker.task is None:
                number = self.waiting.popleft()
                if self.timeouts and self.timeouts[self.tasks[number]["gold"]] >= _PATIENCE:
                    self.judged[number] = "timeout"
                else:
                    worker.send(number, self.tasks[number], self.timeout_s)

    def _judge(self, number: int, judged: Judged) -> None:
        """Note a task's status, and how many timeouts its gold has had since the last answer."""
        self.judged[number] = judged
        if self.timeouts is not None:
            gold = self.tasks[number]["gold"]
            self.timeouts[gold] = self.timeouts[gold] + 1 if judged == "timeout" else 0

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
            self._judge(worker.task, reply["judged"])
            self.failure = self.failure or reply.get("failure")
        worker.idle()
        self.failed_starts = 0
        if reply.get("spent"):
            self._remove(worker)

    def _replace(self, worker: WorkerProcess, status: Status) -> None:
        if worker.task is not None:
            self._judge(worker.task, status)
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
