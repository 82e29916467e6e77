"""Commands on a Ray cluster, whose nodes all see the folder of runs; Ray places them.

If a node is lost, Ray starts its commands again, and they resume from what is stored. Commands end
with the driver, whose death Ray notices. A lost cluster ends the driver; no command fails by it.
"""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

import ray

from sage_cli.errors import ExecutorError
from sage_cli.trials.executors.executor import Command, End, Executor, Fate, Resources
from sage_cli.trials.executors.local import ENDING_PATIENCE_S, GRACE_S, GuardedProcess
from sage_cli.trials.executors.ray_head import RayHead, connect

_RETRIES = 3
"""How often Ray restarts a command whose node or worker was lost."""
_CONNECT_S = 10.0
_POLL_S = 0.1


class RayExecutor(Executor):
    """Runs commands with `resources` as Ray's tasks, whose ids are the jobs' names."""

    outlives = False

    def __init__(
        self,
        address: str | None,
        resources: Resources,
        workers: int | None = None,
        grace_s: float = GRACE_S,
    ) -> None:
        """Join the cluster at `address`, or the one of this machine. Raises ExecutorError where
        none answers, or no node has what a command needs."""
        self._head = RayHead(_join(address))
        self.places = workers or _places(address, resources)
        self._grace_s = grace_s
        # max_calls: the worker ends with its command, which frees the GPU's memory
        self._run = ray.remote(max_calls=1, max_retries=_RETRIES)(_run)
        self._jobs: dict[str, ray.ObjectRef] = {}
        self._asked: set[str] = set()

    def submit(self, commands: Sequence[Command]) -> list[str]:
        """Hand commands to Ray, which starts or queues them. Raises ExecutorError if it is gone."""
        while not self._head.answers():
            time.sleep(_POLL_S)  # calls of Ray would hang
        jobs = [self._remote(command) for command in commands]
        names = [job.task_id().hex() for job in jobs]
        self._jobs.update(zip(names, jobs, strict=True))
        return names

    def ended(self) -> Mapping[str, End]:
        """The jobs that ended since the last call; none while the cluster's head is silent.

        Raises ExecutorError once the cluster is gone.
        """
        if not self._head.answers():
            return {}
        names = {job: name for name, job in self._jobs.items()}
        done, _ = ray.wait(list(names), num_returns=len(names), timeout=0) if names else ([], [])
        try:
            ends = {names[job]: _end_of(job) for job in done}
        except ray.exceptions.LocalRayletDiedError:
            raise self._head.gone("Ray has ended on this machine") from None
        lost = any(end.fate is Fate.LOST for end in ends.values())
        if lost and not self._head.answers():
            return {}
        for name in ends:
            del self._jobs[name]
        return {
            name: End(Fate.ENDED, end.code) if name in self._asked else end
            for name, end in ends.items()
        }

    def end(self, *jobs: str) -> None:
        """End jobs and all their processes."""
        refs = [self._jobs[job] for job in jobs if job in self._jobs]
        self._asked.update(jobs)
        for ref in refs:
            ray.cancel(ref)
        if refs:
            wait_s = self._grace_s + 2 * ENDING_PATIENCE_S
            _, left = ray.wait(refs, num_returns=len(refs), timeout=wait_s)
            for ref in left:
                ray.cancel(ref, force=True)

    def close(self) -> None:
        """End every job; without a head Ray ends them with its nodes."""
        if self._head.reached():
            self.end(*self._jobs)

    def _remote(self, command: Command) -> ray.ObjectRef:
        resources = command.resources
        run = self._run.options(
            name=command.name,
            num_cpus=resources.threads,
            num_gpus=resources.gpus,
            memory=None if resources.memory_gb is None else int(resources.memory_gb * 2**30),
        )
        # as an argument: Ray writes the content of a runtime_env to its logs
        return run.remote(command, dict(os.environ), Path.cwd(), self._grace_s)


def _run(command: Command, environment: dict[str, str], folder: Path, grace_s: float) -> End:
    """Run the command on a node, under a guard that ends it when Ray ends this process."""
    gpus = ray.get_runtime_context().get_accelerator_ids()["GPU"]
    cancelled = threading.Event()
    # ray.cancel interrupts: raised while the guard is made, it would leave the command unguarded
    before = signal.signal(signal.SIGINT, lambda *_: cancelled.set())
    try:
        variables = environment | {"CUDA_VISIBLE_DEVICES": ",".join(gpus)}
        guarded = GuardedProcess(command, variables, grace_s, folder)
        while (end := guarded.poll()) is None:
            if cancelled.wait(_POLL_S):
                guarded.ask_to_end()
                return guarded.wait_for_end()
    finally:
        signal.signal(signal.SIGINT, before)
    return end


def _end_of(job: ray.ObjectRef) -> End:
    """Return the end of a finished task. Raises LocalRayletDiedError, which ends all tasks."""
    try:
        end: End = ray.get(job)
    except ray.exceptions.LocalRayletDiedError:
        raise
    except ray.exceptions.TaskCancelledError:
        return End(Fate.ENDED)
    except ray.exceptions.OutOfMemoryError as error:
        return End(Fate.KILLED, -signal.SIGKILL, str(error))
    except ray.exceptions.RayError as error:
        return End(Fate.LOST, None, str(error))
    return end


def _join(address: str | None) -> str:
    """Join the cluster; where its head listens."""
    given = address or os.environ.get("RAY_ADDRESS")
    address_text = f"at {given}" if given else "on this machine"
    handler = signal.getsignal(signal.SIGTERM)
    try:
        if given and given != "auto":  # Ray itself tries for minutes
            connect(given, _CONNECT_S)
        ray.init(
            given or "auto", ignore_reinit_error=True, log_to_driver=False, logging_level="ERROR"
        )
    except (OSError, ValueError, RuntimeError) as error:
        raise ExecutorError(
            f"no Ray cluster can be reached {address_text}: {error}",
            "start one with `ray start --head`, or give another --address HOST:PORT",
        ) from error
    if threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGTERM, handler)  # Ray's own leaves without a word
    if given and given.startswith("ray://"):
        return given
    return str(ray.get_runtime_context().gcs_address)


def _places(address: str | None, resources: Resources) -> int:
    needs = {
        "CPU": resources.threads,
        "GPU": resources.gpus,
        "memory": (resources.memory_gb or 0) * 2**30,
    }
    nodes = [node["Resources"] for node in ray.nodes() if node["Alive"]]
    places = sum(
        min(int(node.get(name, 0) // need) for name, need in needs.items() if need)
        for node in nodes
    )
    if not places:
        needed = ", ".join(f"{need:g} {name}" for name, need in needs.items() if need)
        raise ExecutorError(
            f"no node of the Ray cluster{f' at {address}' if address else ''} has what a task "
            f"needs: {needed}",
            "lower executor.threads, executor.gpus (0 trains on processor cores) or "
            "executor.memory_gb; or say with --workers how many tasks will fit",
        )
    return places
