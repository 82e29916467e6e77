"""`sweep`: what is searched, by which sampler."""

from __future__ import annotations

import math
from typing import Annotated, Literal

from pydantic import BeforeValidator, Field, model_validator

from sage_cli.settings.objective import Objective, parse_objective
from sage_cli.settings.section import COSMETIC, Section

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
