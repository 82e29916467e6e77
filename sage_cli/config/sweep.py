"""`sweep`: a search over settings."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import BeforeValidator, Field, model_validator

from sage_cli.config.base import COSMETIC, Section
from sage_cli.config.objective import Objective, parse_objective


class SweepSection(Section):
    """A search over settings; every cell leads to a run, or to one for each of several seeds."""

    space: str = "tau,rho"
    """A file of `sweeps/` by name, a YAML file, or the space itself, as `tau=0.2:0.8,rho=0.1:1`."""
    study: str | None = Field(
        None, pattern=r"^[A-Za-z0-9][\w.-]*$", max_length=100, json_schema_extra=COSMETIC
    )
    """The sweep's name, which is a folder's: letters, digits, `_`, `.` and `-`; null makes one of
    the parameters and of what decides the results."""
    sampler: Literal["grid", "random", "qmc", "tpe", "gp", "cmaes", "nsga2"] | None = None
    """How cells are chosen. null: `grid` where all parameters have values, else `tpe`."""
    trials: int | None = Field(None, ge=1, json_schema_extra=COSMETIC)
    """How many cells are chosen. null: all of a grid, 30 by any other sampler."""
    seed: int = 0
    """The sampler's."""
    seeds: int = Field(1, ge=1)
    """Trainings of each cell, with rl.seed, rl.seed + 1, ..."""
    race: bool = False
    """Give the seeds beyond the first only to cells that may still be the best."""
    prune: Literal["none", "median", "asha"] = "none"
    """Which trainings that lag behind are ended, by Optuna's rule of that name."""
    objective: Annotated[
        tuple[str, ...],
        Field(min_length=1),
        BeforeValidator(lambda value: (value,) if isinstance(value, str) else value),
    ] = ("pass@1", "pass@256")
    """What is to be high on the development problems: `pass@8`, or sums as
    `0.5*pass@1+0.5*pass@64`. Two of them end in a Pareto front."""
    benchmark: str = "dapo-math-dev"
    """Development problems to choose settings on; never the ones that are reported. With several
    (comma-separated), an objective is the mean over them."""
    steps: int | None = Field(None, ge=1)
    """RL steps of a cell; null takes `rl.steps`."""
    samples: int = Field(256, ge=1)
    """Samples a problem that a cell is measured with."""
    retries: int = Field(1, ge=0, json_schema_extra=COSMETIC)
    """How often a training that failed is tried again."""
    stop_after: int | None = Field(5, ge=1, json_schema_extra=COSMETIC)
    """After so many cells in a row that fail in one way (`timeout`, `killed`, `error`, `refused`)
    the sweep stops, and counts them as not tried; null: never."""
    storage: str | None = Field(None, json_schema_extra=COSMETIC)
    """The study's database, as sqlite:///FILE or postgresql+psycopg://USER@HOST/NAME, its password
    in $PGPASSWORD or ~/.pgpass; null: a journal file in the sweep's folder."""

    @property
    def objectives(self) -> tuple[Objective, ...]:
        """`objective`, read."""
        return tuple(map(parse_objective, self.objective))

    @model_validator(mode="after")
    def _objectives_are_told_apart(self) -> SweepSection:
        names = [one.name for one in self.objectives]
        if len(set(names)) < len(names):
            raise ValueError(f"objective names {max(names, key=names.count)} twice")
        return self
