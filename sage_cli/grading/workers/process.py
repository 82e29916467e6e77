"""A worker process as its parent sees it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

_PACKAGE_ROOT = str(Path(__file__).resolve().parents[3])
_WORKER = "sage_cli.grading.workers.worker"
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
        """The descriptor of the replies, for selectors."""
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
        """The next reply, {} when it isn't whole yet, None when the process has ended."""
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
