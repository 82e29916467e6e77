"""Optuna's samplers and pruners by name, with a search space in Optuna's terms."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping
from typing import Any

import numpy as np
import optuna
from optuna.distributions import (
    BaseDistribution,
    CategoricalDistribution,
    FloatDistribution,
    IntDistribution,
)
from optuna.pruners import (
    BasePruner,
    HyperbandPruner,
    MedianPruner,
    NopPruner,
    SuccessiveHalvingPruner,
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
from optuna.trial import FrozenTrial, Trial

from sage_cli.trials.sweep.space import Point, SettingValue, Space

_WITH_ORDER = ("qmc", "tpe", "gp", "cmaes")
"""Samplers that go by how near values are to each other."""
STARTUP = 5
"""Points that tpe and gp spread evenly before they model anything. Optuna takes 10 at random, a
third of a sweep of 30. Chosen on the made-up surfaces of benchmarks/bayes.py."""
GOOD = 0.15
"""The share of the trials that tpe calls good; Optuna's is .1. Chosen as the least of .15, .2 and
.33 with at most 12 of 30 diverged in benchmarks/diverging.py, on seeds of its own."""
MOST_GOOD = 25
"""Optuna's own limit."""
LEAST = 2
"""Feasible points without which tpe and gp cannot model anything, and go on evenly."""
POPULATION = 10
"""nsga2's: with Optuna's 50, a sweep of 30 would end within the first, random generation."""


def ordered_lists(space: Space, sampler: str) -> list[str]:
    """Return the lists of numbers, by short name, whose order that sampler can use."""
    if sampler not in _WITH_ORDER:
        return []
    return [name for name, values in space.lists.items() if values.numeric]


class OptunaSpace:
    """A space in Optuna's terms; a list in `ordered` becomes the indices of its sorted values.

    As categories, its values would have no order.
    """

    def __init__(self, space: Space, ordered: Collection[str]) -> None:
        self.space = space
        self._distributions = {
            name: parameter.distribution for name, parameter in space.parameters.items()
        }
        self._sorted: dict[str, list[Any]] = {}
        for name in ordered:
            values: Any = space.parameters[name].options
            self._sorted[name] = sorted(values)
            self._distributions[name] = IntDistribution(0, len(values) - 1)

    @property
    def always(self) -> dict[str, BaseDistribution]:
        """The distributions of the parameters that every point has."""
        names = self._distributions.keys() - self.space.conditional
        return {name: chosen for name, chosen in self._distributions.items() if name in names}

    def to_params(self, point: Point) -> tuple[dict[str, Any], dict[str, BaseDistribution]]:
        """Return a point as a trial's parameters, with their distributions."""
        keys = {name: key for name, key in self.space.keys.items() if key in point}
        params = {
            name: self._sorted[name].index(point[key]) if name in self._sorted else point[key]
            for name, key in keys.items()
        }
        return params, {name: self._distributions[name] for name in keys}

    def from_params(self, params: Mapping[str, Any]) -> Point:
        """Return the point that a trial's parameters mean, as far as they were chosen."""
        keys = self.space.keys.items()
        return {key: self._value(name, params[name]) for name, key in keys if name in params}

    def suggest(self, trial: Trial) -> Point:
        """Return the point that the trial's sampler chooses; absent parameters are left out."""
        point: dict[str, SettingValue] = {}
        for name, parameter in self.space.parameters.items():
            if parameter.exists_in(point):
                chosen = _suggested(trial, name, self._distributions[name])
                point[parameter.key] = self._value(name, chosen)
        return point

    def _value(self, name: str, chosen: Any) -> Any:
        return self._sorted[name][chosen] if name in self._sorted else chosen


def _suggested(trial: Trial, name: str, among: BaseDistribution) -> Any:
    if isinstance(among, CategoricalDistribution):
        return trial.suggest_categorical(name, among.choices)
    if isinstance(among, IntDistribution):
        return trial.suggest_int(name, among.low, among.high, log=among.log)
    assert isinstance(among, FloatDistribution)
    return trial.suggest_float(name, among.low, among.high, log=among.log)


class _Sobol(QMCSampler):
    """A scrambled Sobol sequence over `space`, from the first point on; its place is in the study.

    Optuna's own draws the first point at random, to learn from it what the space is.
    """

    def __init__(self, space: Mapping[str, BaseDistribution], seed: int, rest: BaseSampler) -> None:
        super().__init__(
            scramble=True, seed=seed, independent_sampler=rest, warn_independent_sampling=False
        )
        self._space = dict(space)

    def infer_relative_search_space(
        self,
        study: optuna.Study,  # noqa: ARG002
        trial: FrozenTrial,  # noqa: ARG002
    ) -> dict[str, BaseDistribution]:
        return self._space


def sampler(
    name: str, seed: int, asked: int, space: OptunaSpace, infeasible: int = 0
) -> BaseSampler:
    """A sampler for the ask after `asked` others, `infeasible` of which were ruled out.

    Its proposals depend on the study's content, the seed and these numbers alone, so a restarted
    driver proposes the same points.
    """
    # a generator for each proposal, instead of one that lives as long as the driver: a restarted
    # driver proposes the same points
    seed_of_ask = int(np.random.SeedSequence([seed, asked]).generate_state(1)[0])
    begins = asked < STARTUP or asked - infeasible < LEAST
    # the first points of a model-based search by a low-discrepancy sequence, which covers the space
    # better than random points
    if name == "qmc" or (name in ("tpe", "gp") and begins):
        return _Sobol(space.always, seed, rest=RandomSampler(seed=seed_of_ask))
    if name == "tpe":
        return TPESampler(
            seed=seed_of_ask,
            n_startup_trials=STARTUP,
            # running trials count as bad ones, so that several at once are not proposed beside each
            # other
            constant_liar=True,
            gamma=lambda trials: min(math.ceil(GOOD * trials), MOST_GOOD),
        )
    if name == "gp":
        return GPSampler(
            seed=seed_of_ask, n_startup_trials=STARTUP, warn_independent_sampling=False
        )
    if name == "cmaes":
        return CmaEsSampler(seed=seed_of_ask, warn_independent_sampling=False)
    if name == "nsga2":
        return NSGAIISampler(seed=seed_of_ask, population_size=POPULATION)
    return RandomSampler(seed=seed_of_ask)


def pruner(name: str, first: int, steps: int) -> BasePruner:
    """A pruner of trainings of so many `steps`, the first of which is validated at step `first`."""
    if name == "median":
        return MedianPruner()
    if name == "asha":
        return SuccessiveHalvingPruner(min_resource=first)
    if name == "hyperband":
        return HyperbandPruner(min_resource=first, max_resource=steps)
    return NopPruner()
