"""A task's command on a leash that this process holds."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Mapping
from contextlib import suppress
from math import inf
from pathlib import Path
from typing import BinaryIO, cast

from sage_cli.errors import ExecutorError
from sage_cli.executors import leash
from sage_cli.executors.executor import End, Fate, Task
from sage_cli.store.atomic import private

GRACE_S = 20.0
"""Between SIGTERM and SIGKILL: a training saves a checkpoint."""
PATIENCE_S = 10.0


class Leashed:
    """A task that runs on this machine, and ends with this process at the latest.

    `process` is the number of its process group, too.
    """

    def __init__(
        self, task: Task, environment: Mapping[str, str], grace_s: float, folder: Path | None = None
    ) -> None:
        """Start it in `folder`, or the current one. Raises ExecutorError if the log can't be
        written or no process started."""
        self._grace_s = grace_s
        self._asked, self._end = False, cast(End | None, None)
        minutes = task.resources.minutes
        limit_s = inf if minutes is None else 60 * minutes
        program = [sys.executable, "-I", "-S", leash.__file__, str(limit_s), str(grace_s)]
        try:
            task.log.parent.mkdir(parents=True, exist_ok=True)
            with open(task.log, "ab", opener=private) as log:
                self._leash = subprocess.Popen(
                    [*program, *task.command],
                    stdin=subprocess.PIPE,
                    stdout=subprocess.PIPE,
                    stderr=log,
                    bufsize=0,
                    env={**environment, "OMP_NUM_THREADS": str(task.resources.threads)},
                    cwd=folder,
                    start_new_session=True,
                )
        except OSError as error:
            raise ExecutorError(
                f"{task.name} can't be started: {error}",
                "make room or give leave for its log and its process, and start the command again",
            ) from error
        self.process = self._leash.pid

    def poll(self) -> End | None:
        """How it ended, once nothing of it runs any more; None before."""
        if self._end is None and self._leash.poll() is not None:
            self._end = self._last_report()
        return self._end

    def ask_to_end(self) -> None:
        """Have it stopped: SIGTERM, and SIGKILL after the grace."""
        self._asked = True
        with suppress(OSError, ValueError):  # it has ended already
            cast(BinaryIO, self._leash.stdin).write(b"e")

    def wait_for_end(self) -> End:
        """How it ended, after `ask_to_end`; returns when nothing of it runs any more."""
        try:
            self._leash.wait(self._grace_s + PATIENCE_S)
        except subprocess.TimeoutExpired:
            self._kill_group()
            self._leash.wait()
        return cast(End, self.poll())

    def _kill_group(self) -> None:
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(self.process, signal.SIGKILL)

    def _last_report(self) -> End:
        """How the task ended by the last line of the leash; one that was killed wrote none."""
        cast(BinaryIO, self._leash.stdin).close()  # to whoever of it still lives: end all
        with cast(BinaryIO, self._leash.stdout) as output:
            fate, _, code = output.read().decode().partition(" ")
        self._kill_group()
        if not code:
            return End(Fate.ENDED if self._asked else Fate.KILLED, self._leash.returncode)
        return End(Fate(fate), int(code))
