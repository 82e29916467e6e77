"""A command under a process guard, which ends it with this process at the latest."""

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
from sage_cli.store.atomic import private
from sage_cli.trials.executors import process_guard
from sage_cli.trials.executors.executor import Command, End, Fate

GRACE_S = 20.0
"""Between SIGTERM and SIGKILL: a training saves a checkpoint."""
PATIENCE_S = 10.0


class GuardedProcess:
    """A command that runs on this machine, and ends with this process at the latest.

    `process` is its process and its process group.
    """

    def __init__(
        self,
        command: Command,
        environment: Mapping[str, str],
        grace_s: float,
        folder: Path | None = None,
    ) -> None:
        """Start it in `folder`, or the current one. Raises ExecutorError if the log can't be
        written or no process started."""
        self._grace_s = grace_s
        self._asked, self._end = False, cast(End | None, None)
        minutes = command.resources.minutes
        limit_s = inf if minutes is None else 60 * minutes
        program = [sys.executable, "-I", "-S", process_guard.__file__, str(limit_s), str(grace_s)]
        try:
            command.log.parent.mkdir(parents=True, exist_ok=True)
            with open(command.log, "ab", opener=private) as log:
                self._guard = subprocess.Popen(
                    [*program, *command.words],
                    stdin=subprocess.PIPE,
                    stdout=subprocess.PIPE,
                    stderr=log,
                    bufsize=0,
                    env={**environment, "OMP_NUM_THREADS": str(command.resources.threads)},
                    cwd=folder,
                    start_new_session=True,
                )
        except OSError as error:
            raise ExecutorError(
                f"{command.name} can't be started: {error}",
                "make room or give leave for its log and its process, and start the command again",
            ) from error
        self.process = self._guard.pid

    def poll(self) -> End | None:
        """Return the end of the command once all its processes are gone; None before."""
        if self._end is None and self._guard.poll() is not None:
            self._end = self._last_report()
        return self._end

    def ask_to_end(self) -> None:
        """Ask it to stop: SIGTERM, and SIGKILL after the grace."""
        self._asked = True
        with suppress(OSError, ValueError):  # it has ended
            cast(BinaryIO, self._guard.stdin).write(b"e")

    def wait_for_end(self) -> End:
        """Return the end of the command after `ask_to_end`, when all its processes are gone."""
        try:
            self._guard.wait(self._grace_s + PATIENCE_S)
        except subprocess.TimeoutExpired:
            self._kill_group()
            self._guard.wait()
        return cast(End, self.poll())

    def _kill_group(self) -> None:
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(self.process, signal.SIGKILL)

    def _last_report(self) -> End:
        """Return the end of the command by the guard's last line; a killed guard wrote none."""
        cast(BinaryIO, self._guard.stdin).close()  # a guard that still lives ends all
        with cast(BinaryIO, self._guard.stdout) as output:
            fate, _, code = output.read().decode().partition(" ")
        self._kill_group()
        if not code:
            return End(Fate.ENDED if self._asked else Fate.KILLED, self._guard.returncode)
        return End(Fate(fate), int(code))
