"""Commands run on this machine, as processes that end with their driver, however it ends."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from functools import cache
from math import inf
from pathlib import Path
from typing import BinaryIO, cast

from sage_cli.errors import ExecutorError
from sage_cli.store.files import private
from sage_cli.trials.executors import process_guard
from sage_cli.trials.executors.executor import Command, End, Executor, Fate

GRACE_S = 20.0
"""Between SIGTERM and SIGKILL: a training saves a checkpoint."""
ENDING_PATIENCE_S = 10.0


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
        """Send SIGTERM, and SIGKILL after the grace period."""
        self._asked = True
        with suppress(OSError, ValueError):  # it has ended
            cast(BinaryIO, self._guard.stdin).write(b"e")

    def wait_for_end(self) -> End:
        """Return the end of the command after `ask_to_end`, when all its processes are gone."""
        try:
            self._guard.wait(self._grace_s + ENDING_PATIENCE_S)
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


class LocalExecutor(Executor):
    """Runs at most `places` commands at once, each with GPUs of its own.

    With `gpus`, as CUDA_VISIBLE_DEVICES names them, a command that asks for none sees none. A job
    is named by its process group.
    """

    outlives = False

    def __init__(self, places: int, gpus: Sequence[str] = (), grace_s: float = GRACE_S) -> None:
        self.places = places
        self._has_gpus, self._free = bool(gpus), list(gpus)
        self._grace_s = grace_s
        self._jobs: dict[str, tuple[GuardedProcess, list[str]]] = {}  # with their GPUs

    def submit(self, commands: Sequence[Command]) -> list[str]:
        """Start commands at once; there must be a free place for each."""
        if len(self._jobs) + len(commands) > self.places:
            free = self.places - len(self._jobs)
            raise ValueError(f"{len(commands)} commands, {free} free places")
        started: list[str] = []
        try:
            for command in commands:
                started.append(self._start(command))
        except ExecutorError:
            self.end(*started)
            self.ended()
            raise
        return started

    def ended(self) -> Mapping[str, End]:
        """The jobs that ended since the last call; their places and GPUs are free from then on."""
        ends = {name: guarded.poll() for name, (guarded, _) in self._jobs.items()}
        ended = {name: end for name, end in ends.items() if end is not None}
        for name in ended:
            self._free += self._jobs.pop(name)[1]
        return ended

    def end(self, *jobs: str) -> None:
        """End jobs and all their processes."""
        guards = [self._jobs[job][0] for job in jobs if job in self._jobs]
        # all are asked before the first is waited for, since each may take the grace to save
        for guarded in guards:
            guarded.ask_to_end()
        for guarded in guards:
            guarded.wait_for_end()

    def close(self) -> None:
        """End every job."""
        self.end(*self._jobs)

    def _start(self, command: Command) -> str:
        gpus = self._free[: command.resources.gpus]
        if command.resources.gpus > len(gpus):
            raise ExecutorError(
                f"{command.name} asks for {command.resources.gpus} GPUs, and {len(gpus)} are free",
                "lower executor.gpus or executor.workers",
            )
        visible = {"CUDA_VISIBLE_DEVICES": ",".join(gpus)} if self._has_gpus else {}
        guarded = GuardedProcess(command, {**os.environ, **visible}, self._grace_s)
        del self._free[: len(gpus)]
        self._jobs[str(guarded.process)] = guarded, gpus
        return str(guarded.process)


def cores() -> int:
    """Processor cores that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def gpus() -> tuple[str, ...]:
    """The GPUs that this process may use, as CUDA_VISIBLE_DEVICES names them."""
    visible = os.environ.get("CUDA_VISIBLE_DEVICES")
    if visible is not None:
        names = [name.strip() for name in visible.split(",")]
        # CUDA takes the names before the first invalid one, as in "0,-1"
        valid = [bool(name) and name != "-1" for name in names]
        return tuple(names[: valid.index(False)] if False in valid else names)
    return _installed_gpus()


@cache
def _installed_gpus() -> tuple[str, ...]:
    """The GPUs of this machine; remembered, since a plan asks for each of its tasks."""
    try:
        listed = subprocess.run(
            ["nvidia-smi", "--query-gpu=index", "--format=csv,noheader"],
            capture_output=True,
            text=True,
            timeout=60,
            check=True,
        )
    except (OSError, subprocess.SubprocessError):
        return ()
    return tuple(listed.stdout.split())
