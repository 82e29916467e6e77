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

ROOT_VARIABLE = "SAGE_RUNS"


def default_root() -> Path:
    """Return the folder of runs where no flag or setting names one: `$SAGE_RUNS`, or `runs`."""
    return Path(os.environ.get(ROOT_VARIABLE) or "runs")


class TrackingSection(Section):
    """Mirrors of a run's own files, which stay authoritative; nothing here changes a result."""

    wandb: Annotated[
        Literal["offline", "online", "off"],
        BeforeValidator(lambda value: "off" if value is False else value),  # YAML's own `off`
    ] = Field("offline", json_schema_extra=COSMETIC)
    """Mirror runs to W&B: `offline` into files, `online` to its servers, `off`."""
    project: str = Field("sage", json_schema_extra=COSMETIC)
    """Project in W&B."""
    group: str | None = Field(None, json_schema_extra=COSMETIC)
    """Group in W&B."""
    tensorboard: bool = Field(False, json_schema_extra=COSMETIC)
    """Mirror runs as TensorBoard's event files."""
    rollouts: Annotated[int, Field(ge=0)] | Literal["all"] = Field(4, json_schema_extra=COSMETIC)
    """At most how many completions rollouts.jsonl keeps of a step of RL, each of another prompt.
    `all` also keeps every completion in completions/: token ids, grade, rewards."""
    rollouts_every: int = Field(10, ge=1, json_schema_extra=COSMETIC)
    """Steps from one that keeps some to the next; the first step always does."""


class RunSection(Section):
    """The place of results; no setting here changes a result."""

    root: Path = Field(default_factory=default_root, json_schema_extra=COSMETIC)
    """Folder of runs: `--runs`, this setting, `$SAGE_RUNS`, or `runs`, the first that is there."""
    sweep: str | None = Field(None, json_schema_extra=COSMETIC)
    """The sweep that the run belongs to; such a run is never taken as the latest."""


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
        """The names of what it is a sum of, as `pass@8`, by k."""
        return {k: f"pass@{k}" for k in self.weights}

    def value(self, measured: Mapping[str, float]) -> float:
        """Return the weighted sum, from values by name, as `pass@8`."""
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
                f"'{text}' is no objective: write pass@k, or a sum as 0.5*pass@1+0.5*pass@64"
            )
        k, weight = int(term["k"]), float(term["weight"] or 1)
        if k in weights:
            raise ValueError(f"'{text}' names pass@{k} twice")
        if weight == 0:
            raise ValueError(f"'{text}' gives pass@{k} no weight")
        weights[k] = weight
    return Objective(name, weights)


Sampler = Literal["grid", "random", "qmc", "tpe", "gp", "cmaes", "nsga2"]


class SweepSection(Section):
    """A search over settings; a trial is a point of the space, with one run for each seed."""

    space: str = "tau,rho"
    """A file of `sweeps/` by name, a YAML file, or the space itself, as `tau=0.2:0.8,rho=0.1:1`."""
    study: str | None = Field(
        None, pattern=r"^[A-Za-z0-9][\w.-]*$", max_length=100, json_schema_extra=COSMETIC
    )
    """Name of the sweep and of its folder: letters, digits, `_`, `.` and `-`. null: made of the
    parameters' names and a hash of the settings that decide the results."""
    sampler: Sampler | None = None
    """How trials are chosen. null: `grid` if every parameter has a list of values, else `tpe`."""
    trials: int | None = Field(None, ge=1, json_schema_extra=COSMETIC)
    """Number of trials. null: the whole grid, or 30 with any other sampler."""
    seed: int = 0
    """Seed of the sampler."""
    seeds: int = Field(1, ge=1)
    """Runs of each trial, with rl.seed, rl.seed + 1, ..."""
    prune: Literal["none", "median", "asha", "hyperband"] = "none"
    """End trials that lag behind, by Optuna's pruner: the median of the others, successive halving
    (`asha`) or `hyperband`. It takes one objective."""
    objective: Annotated[
        tuple[str, ...],
        Field(min_length=1),
        BeforeValidator(lambda value: (value,) if isinstance(value, str) else value),
    ] = ("pass@1", "pass@256")
    """Maximised on the validation problems: `pass@8`, or a sum as `0.5*pass@1+0.5*pass@64`. Two
    objectives give a Pareto front."""
    benchmark: str = "dapo-math-dev"
    """Validation problems on which settings are chosen; use others than the reported ones. With
    several (comma-separated), an objective is the mean over them."""
    steps: int | None = Field(None, ge=1)
    """RL steps of a run; null takes `rl.steps`."""
    samples: int = Field(256, ge=1)
    """Samples per problem with which a trial is measured."""
    retries: int = Field(1, ge=0, json_schema_extra=COSMETIC)
    """How often a failed run is tried again."""
    max_infeasible: int | None = Field(None, ge=1, json_schema_extra=COSMETIC)
    """End the sweep once this many trials diverged, or ran out of memory because of a searched
    setting. They do not count as `trials`. null: as many as `trials`."""

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
                f"prune '{self.prune}' goes by one objective, not {len(self.objective)}: "
                f"{', '.join(self.objective)} (name one with --objective, or a sum of them)"
            )
        return self


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
