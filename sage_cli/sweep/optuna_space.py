"""A search space in Optuna's terms: its distributions, and cells to trials' parameters and back."""

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

from sage_cli.sweep.space import Cell, Parameter, Space, Value, Values

_WITH_ORDER = ("qmc", "tpe", "gp", "cmaes")
"""Samplers that go by how near values are to each other."""


def ordered_lists(space: Space, sampler: str) -> list[str]:
    """The lists of numbers, by short name, whose order that sampler can use."""
    return [one.name for one in space.parameters if sampler in _WITH_ORDER and _numeric(one)]


def _numeric(one: Parameter) -> bool:
    return isinstance(one.domain, Values) and one.domain.numeric


class OptunaSpace:
    """A space as Optuna has it; a list in `ordered` is there the places of its sorted values.

    Left a list, it would be categories, of which none is nearer than another.
    """

    def __init__(self, space: Space, ordered: Collection[str]) -> None:
        self.space = space
        self._sorted_values: dict[str, list[Any]] = {
            one.name: sorted(one.domain.values)
            for one in space.parameters
            if one.name in ordered and isinstance(one.domain, Values)
        }
        self._distributions = {one.name: self._distribution(one) for one in space.parameters}

    @property
    def always(self) -> dict[str, BaseDistribution]:
        """The distributions of the parameters that every cell has."""
        return {
            one.name: self._distributions[one.name] for one in self.space.parameters if not one.when
        }

    def to_params(self, cell: Cell) -> tuple[dict[str, Any], dict[str, BaseDistribution]]:
        """A cell as a trial's parameters, with their distributions."""
        params = {
            one.name: self._place(one.name, cell[one.key])
            for one in self.space.parameters
            if one.key in cell
        }
        return params, {name: self._distributions[name] for name in params}

    def from_params(self, params: Mapping[str, Any]) -> Cell:
        """The cell that a trial's parameters mean, as far as they were chosen."""
        return {
            one.key: self._value(one.name, params[one.name])
            for one in self.space.parameters
            if one.name in params
        }

    def strange(self, params: Mapping[str, Any]) -> dict[str, Any]:
        """The parameters of a trial that the space doesn't have, or with values it hasn't."""
        return {
            name: value
            for name, value in params.items()
            if name not in self._distributions or not _holds(self._distributions[name], value)
        }

    def suggest(self, trial: Trial) -> Cell:
        """What the trial's sampler chooses for the parameters, each where it exists."""
        cell: dict[str, Value] = {}
        for one in self.space.parameters:
            if one.exists_in(cell):
                chosen = _suggested(trial, one.name, self._distributions[one.name])
                cell[one.key] = self._value(one.name, chosen)
        return cell

    def _distribution(self, one: Parameter) -> BaseDistribution:
        domain = one.domain
        if one.name in self._sorted_values:
            return IntDistribution(0, len(self._sorted_values[one.name]) - 1)
        if isinstance(domain, Values):
            return CategoricalDistribution(domain.values)
        if domain.integer:
            return IntDistribution(int(domain.low), int(domain.high), log=domain.log)
        return FloatDistribution(domain.low, domain.high, log=domain.log)

    def _place(self, name: str, value: Value) -> Value:
        return self._sorted_values[name].index(value) if name in self._sorted_values else value

    def _value(self, name: str, chosen: Any) -> Value:
        found: Value = self._sorted_values[name][chosen] if name in self._sorted_values else chosen
        return found


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
