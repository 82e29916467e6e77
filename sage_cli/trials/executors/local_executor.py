"""Commands on this machine: processes that end with the driver, however it ends."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence

from sage_cli.errors import ExecutorError
from sage_cli.trials.executors.executor import GRACE_S, Command, End, Executor, GuardedProcess


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
