"""A search space in Optuna's terms: its distributions, and points to and from parameters."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from optuna.distributions import (
    BaseDistribution,
    CategoricalDistribution,
    FloatDistribution,
    IntDistribution,
)
from optuna.trial import Trial

from sage_cli.trials.search.space.space import Point, Space, Value, Values

_WITH_ORDER = ("qmc", "tpe", "gp", "cmaes")
"""Samplers that go by how near values are to each other."""


def ordered_lists(space: Space, sampler: str) -> list[str]:
    """Return the lists of numbers, by short name, whose order that sampler can use."""
    lists = {name: one for name, one in space.parameters.items() if isinstance(one, Values)}
    return [name for name, one in lists.items() if sampler in _WITH_ORDER and one.numeric]


class OptunaSpace:
    """A space as Optuna has it; a list in `ordered` is there the places of its sorted values.

    Left a list, it would be categories, of which none is nearer than another.
    """

    def __init__(self, space: Space, ordered: Collection[str]) -> None:
        self.space = space
        self._distributions = {name: one.distribution for name, one in space.parameters.items()}
        self._sorted: dict[str, list[Any]] = {}
        for name in ordered:
            values: Any = space.parameters[name].options
            self._sorted[name] = sorted(values)
            self._distributions[name] = IntDistribution(0, len(values) - 1)

    @property
    def always(self) -> dict[str, BaseDistribution]:
        """The distributions of the parameters that every point has."""
        some = self.space.conditional
        return {name: one for name, one in self._distributions.items() if name not in some}

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

    def strange(self, params: Mapping[str, Any]) -> dict[str, Any]:
        """Return the parameters of a trial that the space lacks, or with values it lacks."""
        known = self._distributions
        return {
            name: value
            for name, value in params.items()
            if name not in known or not _holds(known[name], value)
        }

    def suggest(self, trial: Trial) -> Point:
        """Return what the trial's sampler chooses for the parameters, each where it exists."""
        point: dict[str, Value] = {}
        for name, one in self.space.parameters.items():
            if one.exists_in(point):
                chosen = _suggested(trial, name, self._distributions[name])
                point[one.key] = self._value(name, chosen)
        return point

    def _value(self, name: str, chosen: Any) -> Any:
        return self._sorted[name][chosen] if name in self._sorted else chosen


def _holds(among: BaseDistribution, value: Any) -> bool:
    try:
        return among._contains(among.to_internal_repr(value))
    except ValueError:
        return False


def _suggested(trial: Trial, name: str, among: BaseDistribution) -> Any:
    if isinstance(among, CategoricalDistribution):
        return trial.suggest_categorical(name, among.choices)
    if isinstance(among, IntDistribution):
        return trial.suggest_int(name, among.low, among.high, log=among.log)
    assert isinstance(among, FloatDistribution)
    return trial.suggest_float(name, among.low, among.high, log=among.log)
