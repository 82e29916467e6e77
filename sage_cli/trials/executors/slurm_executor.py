"""Commands under Slurm, through submitit: those of one submission are an array job.

Nodes must see the folder of runs and this Python. Jobs outlive their driver: the next one adopts
them by Slurm's ids. A job whose node fails is queued again by Slurm.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from itertools import groupby
from math import ceil, inf
from pathlib import Path
from typing import Any

import submitit
from submitit.core.utils import FailedJobError, JobPaths, pickle_load

from sage_cli.errors import ExecutorError
from sage_cli.settings.executor import ExecutorSection
from sage_cli.trials.executors.executor import Command, End, Fate, Resources
from sage_cli.trials.executors.local import GRACE_S, GuardedProcess

_MOST = 1000
"""Commands at once unless executor.workers says fewer: the longest array by Slurm's default."""
SLACK_MIN = 3
"""Slurm's own limit is higher by this than a command's, which its guard enforces."""
CHECK_S = 5.0
"""Between two questions to Slurm; results are found without them."""
_SETTLE_S = 10.0
"""A shared file system may show a result that much later than Slurm the job's end."""
_WARNING_S = 60
_POLL_S = 0.1
_FATES = {
    "COMPLETED": Fate.LOST,
    "FAILED": Fate.LOST,
    "CANCELLED": Fate.KILLED,
    "OUT_OF_MEMORY": Fate.KILLED,
    "PREEMPTED": Fate.KILLED,
    "TIMEOUT": Fate.TIMEOUT,
    "DEADLINE": Fate.TIMEOUT,
    "NODE_FAIL": Fate.LOST,
    "BOOT_FAIL": Fate.LOST,
    "REVOKED": Fate.LOST,
}
"""The end of a job that left no result, by Slurm's last state of it."""


class SlurmExecutor:
    """Submits jobs as `section` says; what Slurm and submitit write goes to `folder`."""

    outlives = True

    def __init__(self, section: ExecutorSection, folder: Path, grace_s: float = GRACE_S) -> None:
        """Raises ExecutorError where there is no Slurm that answers."""
        _ask("sinfo", "--noheader")
        self.places = section.workers or _MOST
        self._section, self._folder, self._grace_s = section, folder.absolute(), grace_s
        self._jobs: set[str] = set()
        self._asked: set[str] = set()
        self._states: dict[str, str] = {}
        self._reasons: dict[str, str] = {}
        self._checked_at = -CHECK_S
        self._over_at: dict[str, float] = {}

    def submit(self, commands: Sequence[Command]) -> list[str]:
        """One array job for all that get the same resources."""
        submitted: list[str] = []
        for resources, same in groupby(commands, lambda command: command.resources):
            submitted += self._submit(list(same), resources)
        self._jobs.update(submitted)
        self._checked_at = -CHECK_S
        return submitted

    def adopt(self, job: str) -> bool:
        """Take up a job whose submission is in the folder."""
        if not JobPaths(self._folder, job).submitted_pickle.exists():
            return False
        self._jobs.add(job)
        return True

    def waits(self, job: str) -> bool:
        """Return True if Slurm called the job pending when it was last asked."""
        return self._states.get(job) == "PENDING"

    def ended(self) -> Mapping[str, End]:
        """The jobs that left a result, or of which Slurm says that they are over."""
        if self._jobs and time.monotonic() >= self._checked_at + CHECK_S:
            self._check()
        ends = {job: end for job in self._jobs if (end := self._end_of(job)) is not None}
        self._jobs -= set(ends)
        return ends

    def end(self, *jobs: str) -> None:
        """Cancel jobs and wait until Slurm says that nothing of them runs."""
        cancelled = self._jobs.intersection(jobs)
        if not cancelled:
            return
        self._asked |= cancelled
        _ask("scancel", *cancelled, check=False)
        self._check()
        while any(map(self._goes_on, cancelled)):
            time.sleep(_POLL_S)
            self._check()

    def close(self) -> None:
        """Nothing: jobs outlive their driver."""

    def _submit(self, commands: Sequence[Command], resources: Resources) -> list[str]:
        section = self._section
        executor = submitit.SlurmExecutor(self._folder)
        parameters: dict[str, Any] = {
            "job_name": "sage",
            "partition": section.partition,
            "account": section.account,
            "cpus_per_task": resources.threads,
            "gpus_per_node": resources.gpus or None,
            "mem_gb": resources.memory_gb,
            "array_parallelism": self.places,
            "setup": list(section.setup),
            "signal_delay_s": _WARNING_S,
            "additional_parameters": dict(section.lines),
        }
        limit = None if resources.minutes is None else ceil(resources.minutes) + SLACK_MIN
        given = {name: value for name, value in parameters.items() if value is not None}
        try:
            executor.update_parameters(**given, time=limit)
            with executor.batch():
                jobs = [executor.submit(_run, command, self._grace_s) for command in commands]
            return [job.job_id for job in jobs]
        except (FailedJobError, OSError, subprocess.SubprocessError) as error:
            raise ExecutorError(
                f"Slurm refuses {len(commands)} tasks: {error}",
                "check executor.partition, account, gpus (0 asks for none), memory_gb and lines",
            ) from error

    def _check(self) -> None:
        """Read the states of all jobs from Slurm; if it does not answer, the last ones stay."""
        self._checked_at = time.monotonic()
        asked = ("--me", "--noheader", "--array", "--states=all", "--format=%i %T %r")
        try:
            listed = [line.split(" ", 2) for line in _ask("squeue", *asked).splitlines()]
        except ExecutorError:
            return
        self._states = {job: state for job, state, _ in listed}
        self._reasons.update({job: f"{state}, {reason}" for job, state, reason in listed})
        for job in self._jobs:
            if self._goes_on(job):  # also one that is queued again
                self._over_at.pop(job, None)
            else:
                self._over_at.setdefault(job, self._checked_at)

    def _goes_on(self, job: str) -> bool:
        return job in self._states and self._states[job] not in _FATES

    def _end_of(self, job: str) -> End | None:
        """From its result; without one, from its state when it has been over for a while."""
        paths = JobPaths(self._folder, job, 0)
        if paths.result_pickle.exists():
            outcome, result = pickle_load(paths.result_pickle)
            end = result if outcome == "success" else End(Fate.LOST, None, str(result))
        elif job in self._asked and job in self._over_at:
            end = End(Fate.ENDED)
        elif time.monotonic() >= self._over_at.get(job, inf) + _SETTLE_S:
            reason = self._reasons.get(job, "nothing of it any more")
            fate = _FATES.get(self._states.get(job, ""), Fate.LOST)
            end = End(fate, None, f"Slurm says: {reason}; see {paths.stdout}")
        else:
            return None
        return End(Fate.ENDED, end.code) if job in self._asked else end


def _run(command: Command, grace_s: float) -> End:
    """Run the command on a node, under a guard that ends it when Slurm ends this process."""
    heard: set[int] = set()
    for number in (signal.SIGTERM, signal.SIGUSR2):  # after submitit's, which ignore and requeue
        signal.signal(number, lambda number, _: heard.add(number))
    guarded = GuardedProcess(command, os.environ, grace_s)
    while (end := guarded.poll()) is None:
        if heard:
            guarded.ask_to_end()
        time.sleep(_POLL_S)
    if signal.SIGTERM in heard:
        sys.exit(128 + signal.SIGTERM)  # no result: Slurm knows whether it is queued again
    return End(Fate.TIMEOUT, end.code) if heard else end


def _ask(*command: str, check: bool = True) -> str:
    """The output of one of Slurm's commands. Raises ExecutorError if it is missing or fails."""
    try:
        return subprocess.run(command, capture_output=True, text=True, check=check).stdout
    except (OSError, subprocess.CalledProcessError) as error:
        message = (getattr(error, "stderr", None) or str(error)).strip()
        raise ExecutorError(
            f"Slurm can't be reached: {command[0]}: {message}",
            "type this on a machine where sinfo answers, or use another --executor; jobs that "
            "were submitted go on",
        ) from error
