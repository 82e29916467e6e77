"""What is searched: parameters, what values each may have, and when it exists at all."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import product
from math import prod
from typing import Any

from sage_cli.errors import ConfigurationError

Value = float | int | str | bool
Cell = Mapping[str, Value]
"""Values by setting, as {"guide.tau": 0.465, "guide.rho": 0.775}."""
LISTED = 10_000
"""Cells that are counted one by one; of more a sampler doesn't come to the end."""


@dataclass(frozen=True)
class Values:
    """One of these, in this order."""

    values: tuple[Value, ...]

    @property
    def numeric(self) -> bool:
        """Whether all of them are numbers, so that one is nearer to another than a third."""
        return all(_kind(one) == "number" for one in self.values)

    def __contains__(self, value: object) -> bool:
        return any(value == one and _kind(value) == _kind(one) for one in self.values)


@dataclass(frozen=True)
class Range:
    """Anything from `low` to `high`, both included; `log` searches it by factors."""

    low: float
    high: float
    log: bool = False
    integer: bool = False

    def __contains__(self, value: object) -> bool:
        if not isinstance(value, int | float) or isinstance(value, bool):
            return False
        whole = not self.integer or float(value).is_integer()
        return whole and self.low <= value <= self.high


@dataclass(frozen=True)
class Parameter:
    """A setting that is searched: its short name, its key, what it may be.

    It exists only in cells where each key of `when` has one of the values given there.
    """

    name: str
    key: str
    domain: Values | Range
    when: Mapping[str, tuple[Value, ...]] = field(default_factory=dict)

    def exists_in(self, cell: Cell) -> bool:
        """Whether the values in `cell` that stand before it let it exist."""
        return all(cell.get(key) in Values(values) for key, values in self.when.items())


@dataclass(frozen=True)
class Space:
    """Parameters, each after those on which its existence depends."""

    parameters: tuple[Parameter, ...]

    @property
    def keys(self) -> dict[str, str]:
        """Settings by short name."""
        return {one.name: one.key for one in self.parameters}

    @property
    def ranges(self) -> tuple[Parameter, ...]:
        """The parameters that no list of values describes."""
        return tuple(one for one in self.parameters if isinstance(one.domain, Range))

    @property
    def conditional(self) -> tuple[Parameter, ...]:
        """The parameters that some cells don't have."""
        return tuple(one for one in self.parameters if one.when)

    @property
    def size(self) -> int | None:
        """At most so many cells there are; None where a parameter isn't a whole number."""
        counts = [_count(one.domain) for one in self.parameters]
        return None if None in counts else prod(count or 0 for count in counts)

    def cells(self) -> Iterator[Cell]:
        """Every cell of a grid once, the last parameter fastest.

        Raises ConfigurationError where a parameter has a range.
        """
        if self.ranges:
            names = " and ".join(one.name for one in self.ranges)
            raise ConfigurationError(
                f"a grid has values, and {names} has a range",
                f"write values, as {self.ranges[0].name}=0.1|0.2|0.3, or choose --sampler tpe",
            )
        yield from self._combined()

    def listed(self) -> list[Cell] | None:
        """Every cell, whole numbers of a range too; None where that can't be listed, or is long."""
        return None if self.size is None or self.size > LISTED else list(self._combined())

    def _combined(self) -> Iterator[Cell]:
        """Every cell once, the last parameter fastest, of values and of ranges of whole numbers."""
        seen = set()
        for combination in product(*(_each(one.domain) for one in self.parameters)):
            cell = self.existing(dict(zip(self.keys.values(), combination, strict=True)))
            if (key := cell_key(cell)) not in seen:
                seen.add(key)
                yield cell

    def existing(self, cell: Cell) -> Cell:
        """`cell` without the values of parameters that don't exist in it."""
        kept: dict[str, Value] = {}
        for one in self.parameters:
            if one.key in cell and one.exists_in(kept):
                kept[one.key] = cell[one.key]
        return kept

    def __contains__(self, cell: object) -> bool:
        """Whether `cell` has exactly the parameters that it should, with values they may have."""
        if not isinstance(cell, Mapping):
            return False
        wanted = [one for one in self.parameters if one.exists_in(cell)]
        return {one.key for one in wanted} == set(cell) and all(
            cell[one.key] in one.domain for one in wanted
        )

    def plain(self) -> list[dict[str, Any]]:
        """As JSON's own types; `from_plain` reads it."""
        return [
            {
                "name": one.name,
                "key": one.key,
                **_plain(one.domain),
                **({"when": {k: list(v) for k, v in one.when.items()}} if one.when else {}),
            }
            for one in self.parameters
        ]


def from_plain(parameters: list[dict[str, Any]]) -> Space:
    """The space that `Space.plain` wrote."""
    return Space(tuple(map(_parameter, parameters)))


def cell_key(cell: Cell) -> tuple[tuple[str, str, Value], ...]:
    """What tells cells apart: 1 and 1.0 are one value, 1 and true are two."""
    return tuple(sorted((key, _kind(value), value) for key, value in cell.items()))


def _kind(value: object) -> str:
    return "number" if type(value) in (int, float) else type(value).__name__


def _each(domain: Values | Range) -> Sequence[Value]:
    if isinstance(domain, Values):
        return domain.values
    return range(int(domain.low), int(domain.high) + 1)


def _count(domain: Values | Range) -> int | None:
    if isinstance(domain, Values):
        return len(domain.values)
    return int(domain.high) - int(domain.low) + 1 if domain.integer else None


def _parameter(one: Mapping[str, Any]) -> Parameter:
    when = {key: tuple(values) for key, values in one.get("when", {}).items()}
    if "values" in one:
        return Parameter(one["name"], one["key"], Values(tuple(one["values"])), when)
    low, high = one["range"]
    return Parameter(one["name"], one["key"], Range(low, high, one["log"], one["integer"]), when)


def _plain(domain: Values | Range) -> dict[str, Any]:
    if isinstance(domain, Values):
        return {"values": list(domain.values)}
    return {"range": [domain.low, domain.high], "log": domain.log, "integer": domain.integer}
