"""The executor of a configuration, the resources of its tasks, and what this machine has."""

from __future__ import annotations

import os
import subprocess
from importlib.util import find_spec
from pathlib import Path

from sage_cli.errors import ConfigurationError
from sage_cli.settings.sections.runs import ExecutorSection
from sage_cli.trials.executors.executor import Executor, Resources
from sage_cli.trials.executors.local_executor import LocalExecutor


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
            f"pip install 'sage-rlvr[{section.name}]', or use --executor local",
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
            f"executor.workers={places} with executor.gpus={needed} needs {places * needed} GPUs, "
            f"and this machine has {available}",
            "lower --workers, or train on processor cores with executor.gpus=0",
        )
    return places
