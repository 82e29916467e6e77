"""`sweep`: a search over settings."""

from __future__ import annotations

import math
from typing import Annotated, Literal

from pydantic import BeforeValidator, Field, model_validator

from sage_cli.settings.base import COSMETIC, Section
from sage_cli.settings.objective import Objective, parse_objective

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
    stop_after: int | None = Field(5, ge=1, json_schema_extra=COSMETIC)
    """Stop the sweep after this many trials in a row fail in one way (`timeout`, `killed`, `error`,
    `refused`), and count them as not tried. null: never."""
    max_infeasible: int | None = Field(None, ge=1, json_schema_extra=COSMETIC)
    """End the sweep once this many trials diverged, or ran out of memory because of a searched
    setting. They do not count as `trials`. null: as many as `trials`."""
    storage: str | None = Field(None, json_schema_extra=COSMETIC)
    """The study's database, as sqlite:///FILE or postgresql+psycopg://USER@HOST/NAME; its password
    is read from $PGPASSWORD or ~/.pgpass. null: a journal file in the sweep's folder."""

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
        names = [one.name for one in self.objectives]
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
