"""Optuna's samplers by name, and Optuna's form of a space."""

from __future__ import annotations

from typing import Any

import numpy as np
from optuna.distributions import (
    BaseDistribution,
    CategoricalDistribution,
    FloatDistribution,
    IntDistribution,
)
from optuna.samplers import (
    BaseSampler,
    CmaEsSampler,
    GPSampler,
    NSGAIISampler,
    QMCSampler,
    RandomSampler,
    TPESampler,
)
from optuna.trial import Trial

from sage_cli.sweep.space import Cell, Space, Value, Values

STARTUP = 5
"""Cells that tpe and gp take at random before they model anything; Optuna's 10 is a third of a
sweep of 30. Chosen on the made-up surfaces of benchmarks/bayes.py."""
POPULATION = 10
"""nsga2's: with Optuna's 50, a sweep of 30 would end within the first, random generation."""


def sampler(name: str, seed: int, asked: int) -> BaseSampler:
    """A sampler for the ask after `asked` others.

    What it draws depends on the study's content, the seed and that number alone, so that a driver
    that was started again proposes what it would have proposed. qmc's sequence is one: its place
    in it is in the study.
    """
    own = int(np.random.SeedSequence([seed, asked]).generate_state(1)[0])
    if name == "qmc":
        return QMCSampler(
            scramble=True,
            seed=seed,
            independent_sampler=RandomSampler(seed=own),
            warn_independent_sampling=False,
        )
    if name == "tpe":
        return TPESampler(seed=own, n_startup_trials=STARTUP, constant_liar=True)
    if name == "gp":
        return GPSampler(seed=own, n_startup_trials=STARTUP, warn_independent_sampling=False)
    if name == "cmaes":
        return CmaEsSampler(seed=own, warn_independent_sampling=False)
    if name == "nsga2":
        return NSGAIISampler(seed=own, population_size=POPULATION)
    return RandomSampler(seed=own)


def distributions(space: Space) -> dict[str, BaseDistribution]:
    """What Optuna calls the parameters' domains, by short name."""
    found: dict[str, BaseDistribution] = {}
    for one in space.parameters:
        domain = one.domain
        if isinstance(domain, Values):
            found[one.name] = CategoricalDistribution(domain.values)
        elif domain.integer:
            found[one.name] = IntDistribution(int(domain.low), int(domain.high), log=domain.log)
        else:
            found[one.name] = FloatDistribution(domain.low, domain.high, log=domain.log)
    return found


def suggested(trial: Trial, space: Space) -> Cell:
    """What the trial's sampler chooses for the parameters, each where it exists."""
    cell: dict[str, Value] = {}
    for one in space.parameters:
        domain = one.domain
        if not one.exists_in(cell):
            continue
        if isinstance(domain, Values):
            chosen: Any = trial.suggest_categorical(one.name, domain.values)
            cell[one.key] = chosen
        elif domain.integer:
            low, high = int(domain.low), int(domain.high)
            cell[one.key] = trial.suggest_int(one.name, low, high, log=domain.log)
        else:
            cell[one.key] = trial.suggest_float(one.name, domain.low, domain.high, log=domain.log)
    return cell
