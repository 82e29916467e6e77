"""`executor`: where tasks run, and what each of them gets."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from sage_cli.settings.base import COSMETIC, Section


class ExecutorSection(Section):
    """The place where tasks run; no setting here changes a result."""

    name: Literal["local", "ray", "slurm"] = Field("local", json_schema_extra=COSMETIC)
    """`local`: this machine; `ray`: a Ray cluster; `slurm`: jobs under Slurm."""
    workers: int | None = Field(None, ge=1, json_schema_extra=COSMETIC)
    """Tasks at once. null: on this machine one for each GPU, or without one for each processor
    core, at most 8; on Ray as many as its resources hold; under Slurm as many as there are."""
    threads: int | None = Field(None, ge=1, json_schema_extra=COSMETIC)
    """Processor threads of a task. null: on this machine its share of the cores; elsewhere one for
    each process of its training."""
    gpus: int | None = Field(None, ge=0, json_schema_extra=COSMETIC)
    """GPUs of a task. null: one for each process of its training; on this machine none where there
    are none."""
    memory_gb: float | None = Field(None, gt=0, json_schema_extra=COSMETIC)
    """Memory that a task asks Ray or Slurm for."""
    minutes: float | None = Field(None, gt=0, json_schema_extra=COSMETIC)
    """A task that takes longer is ended, and has failed by `timeout`."""
    address: str | None = Field(None, json_schema_extra=COSMETIC)
    """Ray: the cluster, as HOST:PORT or ray://HOST:PORT; null: the one that this machine is in."""
    partition: str | None = Field(None, json_schema_extra=COSMETIC)
    """Slurm's --partition."""
    account: str | None = Field(None, json_schema_extra=COSMETIC)
    """Slurm's --account."""
    lines: dict[str, str | int] = Field(default_factory=dict, json_schema_extra=COSMETIC)
    """Further #SBATCH lines, as {constraint: h100, qos: long}."""
    setup: tuple[str, ...] = Field((), json_schema_extra=COSMETIC)
    """Slurm: shell lines before a task, as `module load cuda`."""
