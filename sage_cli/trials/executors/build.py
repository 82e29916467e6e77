"""The executor of a configuration, with what it gives each task."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path

from sage_cli.errors import ConfigurationError
from sage_cli.settings.executor import ExecutorSection
from sage_cli.trials.executors.executor import Executor, Resources
from sage_cli.trials.executors.local import LocalExecutor, cores, gpus

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
