"""The contract of executors: they run commands, tell how each ended, and can end one.

An executor knows nothing of training. All state is in run folders, sample sets and the study, so
a driver that dies is started again and finds what is done. `LocalExecutor` runs commands on this
machine, as processes that end with the driver, however it ends; `build_executor` makes the one of
a configuration.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from enum import StrEnum
from functools import cache
from importlib.util import find_spec
from math import inf
from pathlib import Path
from typing import BinaryIO, Protocol, cast

from sage_cli.errors import ConfigurationError, ExecutorError
from sage_cli.settings.runs import ExecutorSection
from sage_cli.store.files import private
from sage_cli.trials.executors import process_guard


@dataclass(frozen=True)
class Resources:
    """The share of a machine that a command gets; it is ended after `minutes`."""

    threads: int = 1
    gpus: int = 0
    memory_gb: float | None = None
    minutes: float | None = None


@dataclass(frozen=True)
class Command:
    """A command line, and the log to which its output is appended.

    `name` is unique among the commands that run at the same time.
    """

    name: str
    words: tuple[str, ...]
    log: Path
    resources: Resources = Resources()


class Fate(StrEnum):
    """The ways in which a command can end, as its executor sees them."""

    EXITED = "exited"
    KILLED = "killed"  # by a signal that the executor didn't send
    TIMEOUT = "timeout"
    ENDED = "ended"  # by `end` or `close`
    LOST = "lost"  # unknown: its node or its record is gone


@dataclass(frozen=True)
class End:
    """The end of a command.

    `code` is its exit code, minus the signal's number where one killed it, None if unknown.
    `reason` is what Ray or Slurm report where a log cannot.
    """

    fate: Fate
    code: int | None = None
    reason: str = field(default="", compare=False)


class Executor(Protocol):
    """Runs commands in places of their own.

    Jobs are named by strings, which a driver may store. If `outlives`, jobs continue when their
    driver is gone, and `adopt` finds them again. Otherwise they end with it, however it ends.
    """

    outlives: bool
    places: int
    """How many commands may run, or wait in the executor's own queue, at the same time."""

    def submit(self, commands: Sequence[Command]) -> list[str]:
        """Start or queue commands; returns a job for each. Raises ExecutorError if that fails."""

    def adopt(self, job: str) -> bool:  # noqa: ARG002
        """Take over a job that an earlier driver submitted; False if the job is unknown."""
        return False

    def waits(self, job: str) -> bool:  # noqa: ARG002
        """Return True if a job is known to be queued, also again because its node was lost."""
        return False

    def ended(self) -> Mapping[str, End]:
        """The jobs that ended since the last call; does not wait."""

    def end(self, *jobs: str) -> None:
        """End jobs and all their processes: SIGTERM, and SIGKILL after some seconds.

        Returns when none of them runs any more, as far as can be seen from here. The next `ended`
        reports their ends. A job that has ended already is left alone.
        """

    def close(self) -> None:
        """End every job that does not outlive its driver."""


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
        """Send SIGTERM, and SIGKILL after the grace period."""
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


_PACKAGES = {"ray": "ray", "slurm": "submitit"}
MOST_LOCAL = 8
"""Tasks at once on a machine without GPUs, unless executor.workers says more."""


def task_resources(section: ExecutorSection, processes: int = 1) -> Resources:
    """The resources of a task whose training runs in `processes` processes."""
    threads, gpus = section.threads or processes, section.gpus
    if section.name == "local":
        gpus = _local_gpus(section, processes)
        threads = section.threads or max(1, cores() // local_places(section, processes))
    return Resources(
        threads=threads,
        gpus=processes if gpus is None else gpus,
        memory_gb=section.memory_gb,
        minutes=section.minutes,
    )


def build_executor(section: ExecutorSection, *, folder: Path, processes: int = 1) -> Executor:
    """The executor that `section` names, for tasks that get `task_resources`.

    Slurm's keeps its files in `folder`, which all nodes must see. Raises ConfigurationError for
    more tasks than this machine has GPUs for and for a missing package, and ExecutorError for a
    cluster that cannot be reached.
    """
    require_executor(section)
    if section.name == "ray":
        from sage_cli.trials.executors.ray_executor import RayExecutor

        return RayExecutor(section.address, task_resources(section, processes), section.workers)
    if section.name == "slurm":
        from sage_cli.trials.executors.slurm_executor import SlurmExecutor

        return SlurmExecutor(section, folder)
    return LocalExecutor(local_places(section, processes), gpus())


def require_executor(section: ExecutorSection) -> None:
    """Raise ConfigurationError if the executor's package is not installed."""
    package = _PACKAGES.get(section.name)
    if package is not None and find_spec(package) is None:
        raise ConfigurationError(
            f"executor '{section.name}' needs the package {package}, which is not installed",
            f"pip install -e '.[{section.name}]' in the checkout of sage, or use --executor local",
        )


def _local_gpus(section: ExecutorSection, processes: int) -> int:
    """The GPUs of a task on this machine: one for each process, if there are any."""
    if section.gpus is not None:
        return section.gpus
    return processes if gpus() else 0


def local_places(section: ExecutorSection, processes: int) -> int:
    """The number of tasks that run at once on this machine.

    Raises ConfigurationError for more than it has GPUs for.
    """
    needed = _local_gpus(section, processes)
    if not needed:
        return section.workers or max(1, min(MOST_LOCAL, cores() // processes))
    available = len(gpus())
    places = section.workers or max(1, available // needed)
    if places * needed > available:
        raise ConfigurationError(
            f"executor.workers={places} with executor.gpus={needed} needs "
            f"{places * needed} GPUs, but this machine has {available}",
            "use fewer --workers, or train on CPU cores with executor.gpus=0",
        )
    return places
