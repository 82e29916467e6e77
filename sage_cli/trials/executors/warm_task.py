"""A command that a warm process forks: its guard's end of the pipes."""

from __future__ import annotations

import os
import select
import signal
from contextlib import suppress

from sage_cli.trials.executors import fork_server
from sage_cli.trials.executors.executor import End, Fate
from sage_cli.trials.executors.guarded_process import PATIENCE_S

_LOST = -signal.SIGKILL
"""The code of a command whose guard was killed: every other signal is reported by the guard."""


class WarmTask:
    """A command that a warm process was asked for. It ends with this process at the latest.

    `owner`, `report` and `alive` are pipes to its guard, described in fork_server.py. The end is
    LOST if the warm process ends before it forks the command.
    """

    def __init__(self, owner: int, report: int, alive: int, grace_s: float) -> None:
        self._owner, self._report, self._alive = owner, report, alive
        self._grace_s = grace_s
        os.set_blocking(report, False)
        self._said = b""
        self._asked = False
        self._end: End | None = None

    @property
    def process(self) -> int | None:
        """The watcher's process and process group; None until it has started."""
        first = self._lines[0].split() if self._lines else []
        return int(first[1]) if first else None

    def poll(self) -> End | None:
        """Return the end of the command once all its processes are gone; None before."""
        if self._end is None and self._is_unwatched(0):
            self._end = self._last_report()
        return self._end

    def ask_to_end(self) -> None:
        """Ask it to stop: SIGTERM, and SIGKILL after the grace."""
        self._asked = True
        if self._end is None:
            with suppress(OSError):  # it has ended
                os.write(self._owner, b"e")

    def wait_for_end(self) -> End:
        """Return the end of the command after `ask_to_end`, when all its processes are gone."""
        if self._end is None:
            self._read()
            # a command that has not started by now will find that its end was asked for
            if self.process is not None and not self._is_unwatched(self._grace_s + PATIENCE_S):
                self._kill_group()
                self._is_unwatched(None)
            self._end = self._last_report()
        return self._end

    def _is_unwatched(self, wait_s: float | None) -> bool:
        """Return True once no watcher holds its end of the pipe, waiting for that so long."""
        return _is_ready(self._alive, wait_s)

    def _last_report(self) -> End:
        """The end by the guard's last line."""
        os.close(self._owner)  # a guard that still lives ends all
        while not self._read() and not (self._asked and self.process is None):
            _is_ready(self._report, None)
        for descriptor in (self._report, self._alive):
            os.close(descriptor)
        if self.process is None:
            return End(Fate.ENDED, -signal.SIGTERM) if self._asked else End(Fate.LOST)
        self._kill_group()
        fate, _, code = self._lines[-1].partition(" ")
        if fate in ("started", fork_server.UNGUARDED):
            return End(Fate.ENDED if self._asked else Fate.KILLED, _LOST)
        return End(Fate(fate), int(code))

    @property
    def _lines(self) -> list[str]:
        return self._said.decode().split("\n")[:-1]

    def _read(self) -> bool:
        """Read what the report holds; True once its last writer is gone."""
        with suppress(BlockingIOError):
            while more := os.read(self._report, 4096):
                self._said += more
            return True
        return False

    def _kill_group(self) -> None:
        if self.process is not None:
            with suppress(ProcessLookupError, PermissionError):
                os.killpg(self.process, signal.SIGKILL)


def _is_ready(pipe: int, wait_s: float | None) -> bool:
    """Return True once a pipe has something to read or no writer, waiting for that so long."""
    poll = select.poll()
    poll.register(pipe, select.POLLIN)
    return bool(poll.poll(None if wait_s is None else 1000 * wait_s))
