"""`executor`: where tasks run."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from sage_cli.settings.section import COSMETIC, Section


class ExecutorSection(Section):
    """The place where tasks run. None of these settings changes a result."""

    name: Literal["local", "ray", "slurm"] = Field("local", json_schema_extra=COSMETIC)
    """Kind of executor: tasks are run by `local` on this machine, by `ray` on a Ray cluster, and by
    `slurm` as Slurm jobs."""
    workers: int | None = Field(None, ge=1, json_schema_extra=COSMETIC)
    """Number of tasks at once. null means, on this machine, one per GPU, or one per CPU core (at
    most 8) without a GPU; on Ray, as many as its resources allow; under Slurm, all tasks."""
    threads: int | None = Field(None, ge=1, json_schema_extra=COSMETIC)
    """Number of CPU threads per task. null means its share of the cores on this machine, and
    elsewhere one per training process."""
    gpus: int | None = Field(None, ge=0, json_schema_extra=COSMETIC)
    """Number of GPUs per task. null means one per training process, or none on a machine without
    GPUs."""
    memory_gb: float | None = Field(None, gt=0, json_schema_extra=COSMETIC)
    """Memory in GB that is requested from Ray or Slurm for a task."""
    minutes: float | None = Field(None, gt=0, json_schema_extra=COSMETIC)
    """Time limit of a task, in minutes. A task that takes longer is stopped and has failed with
    `timeout`."""
    address: str | None = Field(None, json_schema_extra=COSMETIC)
    """Address of the Ray cluster, for example HOST:PORT or ray://HOST:PORT. null means the cluster
    that this machine belongs to."""
    partition: str | None = Field(None, json_schema_extra=COSMETIC)
    """Partition to which Slurm jobs are submitted (Slurm's --partition)."""
    account: str | None = Field(None, json_schema_extra=COSMETIC)
    """Account that Slurm jobs are charged to (Slurm's --account)."""
    lines: dict[str, str | int] = Field(default_factory=dict, json_schema_extra=COSMETIC)
    """Further #SBATCH options that jobs get, for example {constraint: h100, qos: long}."""
    setup: tuple[str, ...] = Field((), json_schema_extra=COSMETIC)
    """Shell lines that are run in a Slurm job before its task, for example `module load cuda`."""
