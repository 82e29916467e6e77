"""Warm processes: fork servers with loaded libraries, one for each environment of commands."""

from __future__ import annotations

import json
import os
import select
import signal
import socket
import subprocess
import sys
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import TypeAlias

from sage_cli.store.atomic import private
from sage_cli.trials.executors import fork_server
from sage_cli.trials.executors.executor import Command, End, Fate
from sage_cli.trials.executors.guarded_process import PATIENCE_S
from sage_cli.trials.executors.process_guard import LINUX

SAGE = ("-m", "sage_cli.cli.warm")
"""What Python runs as a warm process of `sage` commands."""
LOADS = 3
"""How often a process is started for one environment, if signals end it."""
_ROOM = " " * 1024
"""An argument that leaves room for the command lines of forks in `ps`."""

Surroundings: TypeAlias = tuple[str, tuple[tuple[str, str], ...]]
"""A folder and an environment."""
_LOST = -signal.SIGKILL
"""The code of a command whose guard was killed: every other signal is reported by the guard."""


class WarmProcesses:
    """The warm processes of an executor.

    The first command of an environment starts cold, unless another one comes with it: for a single
    command nothing is gained. `program` is what Python runs as a warm process.
    """

    def __init__(self, program: Sequence[str] = SAGE, alone: bool = False) -> None:
        """With `alone`, also a single command is forked."""
        self._program, self._least = tuple(program), 1 if alone else 2
        self._seen: Counter[Surroundings] = Counter()
        self._loads: Counter[Surroundings] = Counter()
        self._processes: dict[Surroundings, _WarmProcess] = {}

    def expect(self, environments: Sequence[Mapping[str, str]]) -> None:
        """Count commands that are about to be started in these environments."""
        if LINUX:
            self._seen.update(map(_surroundings, environments))

    def start(
        self, command: Command, environment: Mapping[str, str], grace_s: float
    ) -> WarmTask | None:
        """Have a command forked in an environment that was expected; None if it must start cold.

        Raises OSError if the log can't be written or no process started.
        """
        here = _surroundings(environment)
        if self._seen[here] < self._least:
            return None
        if (process := self._process(here, environment, command.log)) is None:
            return None
        return process.fork(command, grace_s)

    def close(self) -> None:
        """End all of them; what they forked continues."""
        for process in self._processes.values():
            process.close()
        self._processes.clear()

    def _process(
        self, here: Surroundings, environment: Mapping[str, str], log: Path
    ) -> _WarmProcess | None:
        """The process for these surroundings; None if none can be had.

        One that a signal ended is replaced, some times; one that ended by itself is not.
        """
        process = self._processes.get(here)
        if process is not None:
            code = process.ended
            if code is None:
                return process
            if code >= 0 or self._loads[here] >= LOADS:
                return None
        self._loads[here] += 1
        self._processes[here] = process = _WarmProcess(self._program, environment, log)
        return process


class _WarmProcess:
    """A fork server that this process owns; its output goes to `log`."""

    def __init__(self, program: Sequence[str], environment: Mapping[str, str], log: Path) -> None:
        log.parent.mkdir(parents=True, exist_ok=True)
        self._control, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with theirs, open(log, "ab", opener=private) as output:
            self._process: subprocess.Popen[bytes] = subprocess.Popen(
                [sys.executable, *program, _ROOM],
                stdin=theirs.fileno(), stdout=output, stderr=output, env=dict(environment),
                start_new_session=True,
            )  # fmt: skip

    @property
    def ended(self) -> int | None:
        """Its exit code, or minus the number of the signal that ended it; None while it runs."""
        return self._process.poll()

    def fork(self, command: Command, grace_s: float) -> WarmTask | None:
        """Have a command forked, once the libraries are loaded; None if it can't be asked for."""
        minutes = command.resources.minutes
        asked = {
            "words": command.words,
            "limit_s": None if minutes is None else 60 * minutes,
            "grace_s": grace_s,
        }
        message = json.dumps(asked).encode()
        if len(message) > fork_server.MESSAGE:
            return None
        command.log.parent.mkdir(parents=True, exist_ok=True)
        with ExitStack() as theirs:
            log = theirs.enter_context(open(command.log, "ab", opener=private))
            owner_read, owner = os.pipe()
            report, report_write = os.pipe()
            alive, alive_write = os.pipe()
            sent = [owner_read, report_write, alive_write]
            for descriptor in sent:
                theirs.callback(os.close, descriptor)
            task = WarmTask(owner, report, alive, grace_s)
            with suppress(OSError):  # it has just ended, which the task finds out
                socket.send_fds(self._control, [message], [*sent, log.fileno()])
        return task

    def close(self) -> None:
        """Close its socket, which ends it, and wait for it."""
        self._control.close()
        try:
            self._process.wait(PATIENCE_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()


def _surroundings(environment: Mapping[str, str]) -> Surroundings:
    return str(Path.cwd()), tuple(sorted(environment.items()))


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
