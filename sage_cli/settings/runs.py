"""Where results go, how they are mirrored, what is searched, and where tasks run."""

from __future__ import annotations

import math
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

from pydantic import BeforeValidator, Field, model_validator

from sage_cli.settings.section import COSMETIC, Section

_ROOT_VARIABLE = "SAGE_RUNS"


def default_root() -> Path:
    """Return the folder of runs where no flag or setting names one: `$SAGE_RUNS`, or `runs`."""
    return Path(os.environ.get(_ROOT_VARIABLE) or "runs")


class TrackingSection(Section):
    """Trackers to which a run's records are copied. The run's own files stay authoritative, and
    none of these settings changes a result."""

    wandb: Annotated[
        Literal["offline", "online", "off"],
        BeforeValidator(lambda value: "off" if value is False else value),  # YAML's own `off`
    ] = Field("offline", json_schema_extra=COSMETIC)
    """Use of W&B: `offline` writes its files only, `online` sends them to its servers, and `off`
    does neither."""
    project: str = Field("sage", json_schema_extra=COSMETIC)
    """Project in W&B and trackio that runs are sent to."""
    group: str | None = Field(None, json_schema_extra=COSMETIC)
    """Group in W&B and trackio that runs are added to."""
    tensorboard: bool = Field(False, json_schema_extra=COSMETIC)
    """Whether TensorBoard event files are written, too."""
    trackio: bool = Field(False, json_schema_extra=COSMETIC)
    """Whether records are logged to trackio, too: to its database on this machine, or to where its
    own environment variables say."""
    rollouts: Annotated[int, Field(ge=0)] | Literal["all"] = Field(4, json_schema_extra=COSMETIC)
    """Number of completions per RL step that rollouts.jsonl keeps, each of another prompt. `all`
    also stores every completion in completions/, with token ids, grade and rewards."""
    rollouts_every: int = Field(10, ge=1, json_schema_extra=COSMETIC)
    """Number of steps between those whose completions rollouts.jsonl keeps. The first step is
    always kept."""


class RunSection(Section):
    """The place of results. None of these settings changes a result."""

    root: Path = Field(default_factory=default_root, json_schema_extra=COSMETIC)
    """Folder of runs. The first of these is used: `--runs`, this setting, `$SAGE_RUNS`, and
    `runs`."""
    sweep: str | None = Field(None, json_schema_extra=COSMETIC)
    """Name of the sweep that the run belongs to. Such a run is never used as the latest run."""


_TERM = re.compile(r"(?:(?P<weight>\d+(?:\.\d*)?|\.\d+)\*)?pass@(?P<k>[1-9]\d*)")


@dataclass(frozen=True)
class Objective:
    """The `weights` of pass@k by k; `name` is the objective as it was written."""

    name: str
    weights: Mapping[int, float]

    @property
    def samples_needed(self) -> int:
        """The number of samples per problem that the objective needs at least."""
        return max(self.weights)

    @property
    def terms(self) -> dict[int, str]:
        """The names of what it is a sum of, such as `pass@8`, by k."""
        return {k: f"pass@{k}" for k in self.weights}

    def value(self, measured: Mapping[str, float]) -> float:
        """Return the weighted sum, from values by name, such as `pass@8`."""
        return sum(weight * measured[self.terms[k]] for k, weight in self.weights.items())


def parse_objective(text: str) -> Objective:
    """Return the objective that `text` means: `pass@8`, `0.5*pass@1+0.5*pass@64`.

    Raises ValueError for anything else.
    """
    name = "".join(text.split())
    weights: dict[int, float] = {}
    for part in name.split("+"):
        term = _TERM.fullmatch(part)
        if term is None:
            raise ValueError(
                f"'{text}' is not an objective: write pass@k, or a sum such as "
                "0.5*pass@1+0.5*pass@64"
            )
        k, weight = int(term["k"]), float(term["weight"] or 1)
        if k in weights:
            raise ValueError(f"'{text}' names pass@{k} twice")
        if weight == 0:
            raise ValueError(f"'{text}' gives pass@{k} no weight")
        weights[k] = weight
    return Objective(name, weights)


SamplerName = Literal["grid", "random", "qmc", "tpe", "gp", "cmaes", "nsga2"]


class SweepSection(Section):
    """A search over settings. A trial is one point of the search space, with one run for each
    training seed."""

    space: str = "tau,rho"
    """Search space from which trials are drawn: the name of a file in `sweeps/`, a YAML file, or
    the space itself, for example `tau=0.2:0.8,rho=0.1:1`."""
    study: str | None = Field(
        None, pattern=r"^[A-Za-z0-9][\w.-]*$", max_length=100, json_schema_extra=COSMETIC
    )
    """Name of the sweep and of its folder, with letters, digits, `_`, `.` and `-`. null makes one
    from the parameters' names and a hash of the settings that decide the results."""
    sampler: SamplerName | None = None
    """Optuna's sampler, which chooses the trials. null means `grid` if every parameter has a list
    of values, and otherwise `tpe`."""
    trials: int | None = Field(None, ge=1, json_schema_extra=COSMETIC)
    """Number of trials. null means the whole grid, or 30 with any other sampler."""
    seed: int = 0
    """Seed that Optuna's sampler gets."""
    seeds: int = Field(1, ge=1)
    """Number of training seeds that each trial has: rl.seed, rl.seed + 1, and so on."""
    prune: Literal["none", "median", "asha", "hyperband"] = "none"
    """Optuna's pruner, which ends trials that perform worse than others: `median`, `asha`
    (successive halving) or `hyperband`. It needs a single objective."""
    objective: Annotated[
        tuple[str, ...],
        Field(min_length=1),
        BeforeValidator(lambda value: (value,) if isinstance(value, str) else value),
    ] = ("pass@1", "pass@256")
    """Objective, which is maximised on the validation problems: `pass@8`, for example, or a
    weighted sum such as `0.5*pass@1+0.5*pass@64`. Two objectives give a Pareto front."""
    benchmark: str = "dapo-math-dev"
    """Validation problems on which the settings are chosen. They must differ from the problems that
    you report. An objective is the mean over several comma-separated benchmarks."""
    steps: int | None = Field(None, ge=1)
    """Number of RL steps per run; null means `rl.steps`."""
    samples: int = Field(256, ge=1)
    """Number of samples per problem with which a trial is measured."""
    retries: int = Field(1, ge=0, json_schema_extra=COSMETIC)
    """Number of times that a failed run is tried again."""
    max_infeasible: int | None = Field(None, ge=1, json_schema_extra=COSMETIC)
    """Number of failed trials after which the sweep ends. A trial fails if it diverges, or if a
    searched setting makes it run out of memory, and does not count towards `trials`. null means
    as many as `trials`."""

    @property
    def objectives(self) -> tuple[Objective, ...]:
        """The objectives, parsed."""
        return tuple(map(parse_objective, self.objective))

    @property
    def infeasible_limit(self) -> float:
        """The number of infeasible trials that ends the sweep; without `trials` none does."""
        return self.max_infeasible or self.trials or math.inf

    @model_validator(mode="after")
    def _objectives_differ(self) -> SweepSection:
        names = [objective.name for objective in self.objectives]
        if len(set(names)) < len(names):
            raise ValueError(f"objective names {max(names, key=names.count)} twice")
        return self

    @model_validator(mode="after")
    def _pruned_by_one(self) -> SweepSection:
        if self.prune != "none" and len(self.objective) > 1:
            raise ValueError(
                f"prune '{self.prune}' needs one objective, not {len(self.objective)}: "
                f"{', '.join(self.objective)} (choose one with --objective, or a sum "
                "of them)"
            )
        return self


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
