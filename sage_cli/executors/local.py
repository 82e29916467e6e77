"""Tasks on this machine: processes of their own, which end with the driver, however it ends."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from sage_cli.errors import ExecutorError
from sage_cli.executors.executor import End, Task
from sage_cli.executors.leashed import GRACE_S, Leashed


@dataclass(frozen=True)
class _Job:
    leashed: Leashed
    gpus: list[str]


class LocalExecutor:
    """Runs at most `places` tasks at once, each with GPUs that no other one has.

    A job is named by the number of its process group. With `gpus`, as CUDA_VISIBLE_DEVICES names
    them, a task that asks for none sees none.
    """

    outlives = False

    def __init__(self, places: int, gpus: Sequence[str] = (), grace_s: float = GRACE_S) -> None:
        self.places = places
        self._has_gpus, self._free = bool(gpus), list(gpus)
        self._grace_s = grace_s
        self._jobs: dict[str, _Job] = {}

    def submit(self, tasks: Sequence[Task]) -> list[str]:
        """Start tasks at once; there must be a free place for each."""
        if len(self._jobs) + len(tasks) > self.places:
            raise ValueError(f"{len(tasks)} tasks, {self.places - len(self._jobs)} free places")
        started: list[str] = []
        try:
            for task in tasks:
                started.append(self._start(task))
        except ExecutorError:
            self._end(started)
            self.ended()
            raise
        return started

    def adopt(self, job: str) -> bool:  # noqa: ARG002
        """False: no job of an earlier driver is left."""
        return False

    def waits(self, job: str) -> bool:  # noqa: ARG002
        """False: a job begins when it is submitted."""
        return False

    def ended(self) -> Mapping[str, End]:
        """The jobs that ended since the last call; their places and GPUs are free from then on."""
        ends = {name: job.leashed.poll() for name, job in self._jobs.items()}
        ended = {name: end for name, end in ends.items() if end is not None}
        for name in ended:
            self._free += self._jobs.pop(name).gpus
        return ended

    def end(self, job: str) -> None:
        """End a job and all its processes."""
        self._end([job])

    def close(self) -> None:
        """End every job."""
        self._end(self._jobs)

    def _start(self, task: Task) -> str:
        count = task.resources.gpus
        if count > len(self._free):
            raise ExecutorError(
                f"{task.name} asks for {count} GPUs, and {len(self._free)} are free",
                "lower executor.gpus or executor.workers",
            )
        gpus, environment = self._free[:count], dict(os.environ)
        if self._has_gpus:
            environment["CUDA_VISIBLE_DEVICES"] = ",".join(gpus)
        leashed = Leashed(task, environment, self._grace_s)
        del self._free[:count]
        self._jobs[str(leashed.process)] = _Job(leashed, gpus)
        return str(leashed.process)

    def _end(self, names: Sequence[str] | Mapping[str, _Job]) -> None:
        """All are asked before one is waited for."""
        leashes = [self._jobs[name].leashed for name in names if name in self._jobs]
        for leashed in leashes:
            leashed.ask_to_end()
        for leashed in leashes:
            leashed.wait_for_end()
