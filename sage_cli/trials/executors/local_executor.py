"""Commands on this machine: processes that end with the driver, however it ends."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import count

from sage_cli.errors import ExecutorError
from sage_cli.store.atomic import private
from sage_cli.trials.executors.executor import Command, End, Executor, Fate
from sage_cli.trials.executors.guarded_process import GRACE_S, GuardedProcess, environment_of
from sage_cli.trials.executors.warm_process import WarmProcesses, WarmTask

GONE = "the warm process is gone, so this task is started cold"


@dataclass
class _Job:
    command: Command
    environment: Mapping[str, str]
    gpus: list[str]
    guarded: GuardedProcess | WarmTask


class LocalExecutor(Executor):
    """Runs at most `places` commands at once, each with GPUs of its own.

    With `gpus`, as CUDA_VISIBLE_DEVICES names them, a command that asks for none sees none. With
    `warm`, commands without GPUs are forked from warm processes, which this executor ends. A job
    is named by its process group, if that is known when it is submitted.
    """

    outlives = False

    def __init__(
        self,
        places: int,
        gpus: Sequence[str] = (),
        grace_s: float = GRACE_S,
        warm: WarmProcesses | None = None,
    ) -> None:
        self.places, self._warm, self._numbers = places, warm, count(1)
        self._has_gpus, self._free = bool(gpus), list(gpus)
        self._grace_s = grace_s
        self._jobs: dict[str, _Job] = {}

    def submit(self, commands: Sequence[Command]) -> list[str]:
        """Start commands at once; there must be a free place for each."""
        if len(self._jobs) + len(commands) > self.places:
            free = self.places - len(self._jobs)
            raise ValueError(f"{len(commands)} commands, {free} free places")
        if self._warm is not None:
            self._warm.expect([self._environment(one) for one in commands if _can_be_warm(one)])
        started: list[str] = []
        try:
            for command in commands:
                started.append(self._start(command))
        except ExecutorError:
            self._end(started)
            self.ended()
            raise
        return started

    def ended(self) -> Mapping[str, End]:
        """The jobs that ended since the last call; their places and GPUs are free from then on."""
        ends = {name: self._end_of(job) for name, job in self._jobs.items()}
        ended = {name: end for name, end in ends.items() if end is not None}
        for name in ended:
            self._free += self._jobs.pop(name).gpus
        return ended

    def end(self, job: str) -> None:
        """End a job and all its processes."""
        self._end([job])

    def close(self) -> None:
        """End every job, and the warm processes."""
        self._end(self._jobs)
        if self._warm is not None:
            self._warm.close()

    def _start(self, command: Command) -> str:
        gpus = self._free[: command.resources.gpus]
        if command.resources.gpus > len(gpus):
            raise ExecutorError(
                f"{command.name} asks for {command.resources.gpus} GPUs, and {len(gpus)} are free",
                "lower executor.gpus or executor.workers",
            )
        environment = self._environment(command, gpus)
        task = None
        if self._warm is not None and _can_be_warm(command):
            with suppress(OSError):  # starting it cold says what is wrong
                task = self._warm.start(command, environment, self._grace_s)
        guarded = task or GuardedProcess(command, environment, self._grace_s)
        del self._free[: len(gpus)]
        number = str(guarded.process or f"warm-{next(self._numbers)}")
        self._jobs[number] = _Job(command, environment, gpus, guarded)
        return number

    def _end_of(self, job: _Job) -> End | None:
        """The end of a job; one whose warm process ended before it forked it is started cold."""
        end = job.guarded.poll()
        if end is None or end.fate is not Fate.LOST:
            return end
        with suppress(OSError), open(job.command.log, "ab", opener=private) as log:
            log.write(f"{GONE}\n".encode())
        job.guarded = GuardedProcess(job.command, job.environment, self._grace_s)
        return None

    def _environment(self, command: Command, gpus: Sequence[str] = ()) -> dict[str, str]:
        environment = environment_of(command, os.environ)
        if self._has_gpus:
            environment["CUDA_VISIBLE_DEVICES"] = ",".join(gpus)
        return environment

    def _end(self, names: Sequence[str] | Mapping[str, _Job]) -> None:
        guards = [self._jobs[name].guarded for name in names if name in self._jobs]
        for guarded in guards:
            guarded.ask_to_end()
        for guarded in guards:
            guarded.wait_for_end()


def _can_be_warm(command: Command) -> bool:
    """Return True unless it computes on GPUs: CUDA that was looked at can't be used in a fork."""
    return command.resources.gpus == 0
