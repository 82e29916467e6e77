"""Every value of a space, tried on the schema before anything runs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from sage_cli.config.explain import remedy
from sage_cli.config.layers import leaves
from sage_cli.config.load import changed
from sage_cli.config.schema import SageConfig
from sage_cli.errors import ConfigurationError
from sage_cli.sweep.space import Cell, Parameter, Space, Value, Values, value_key

TRIED_WHOLE = 100
"""Grids of at most so many cells are tried cell by cell; of larger ones each value by itself."""


def checked(space: Space, config: SageConfig) -> Space:
    """Return `space` with its values as the schema takes them (1 for a fraction is 1.0).

    Raises ConfigurationError that lists every value that the schema refuses.
    """
    problems: list[str] = []
    parameters = dict(space.parameters)
    for name, one in space.parameters.items():
        others = _conditions_met(one, space)
        given = one.values if isinstance(one, Values) else one.range
        taken = [_taken({**others, one.key: value}, one.key, config, problems) for value in given]
        if isinstance(one, Values):
            parameters[name] = one.model_copy(update={"values": tuple(taken)})
        problems += _repetitions(name, taken)
    if not problems and not space.ranges and (space.size or 0) <= TRIED_WHOLE:
        for cell in space.cells():
            problems += _refusals(cell, config)
    if problems:
        unique = list(dict.fromkeys(problems))
        raise ConfigurationError("\n".join(unique), remedy(unique))
    return Space(parameters=parameters)


def _repetitions(name: str, taken: list[Value]) -> Iterator[str]:
    """Yield the values that are one to the schema, or one after rounding, and so one cell."""
    for (_, value), count in Counter(map(value_key, taken)).items():
        if count > 1:
            yield (
                f"{name} has the value {value} {count} times: a cell is trained once, "
                "and factors of `times` give six significant digits"
            )


def _taken(cell: Cell, key: str, config: SageConfig, problems: list[str]) -> Value:
    """Return the value of `key` in `cell` as the schema takes it."""
    if refusals := list(_refusals(cell, config)):
        problems += refusals
        return cell[key]
    taken = dict(leaves(changed(config, cell).model_dump(mode="json"))).get(key)
    return taken if isinstance(taken, bool | int | float | str) else cell[key]


def _conditions_met(one: Parameter, space: Space) -> Cell:
    """Return values with which `one` exists."""
    others = {other.key: other for other in space.parameters.values()}
    cell: dict[str, Value] = {}
    for key, values in one.when.items():
        cell |= {**_conditions_met(others[key], space), key: values[0]}
    return cell


def _refusals(cell: Cell, config: SageConfig) -> Iterator[str]:
    """Yield what the schema says against a cell, the values that lead there in front."""
    try:
        changed(config, cell)
    except ConfigurationError as error:
        shown = ", ".join(f"{key}={value}" for key, value in cell.items())
        yield from (f"{shown}: {line}" for line in error.cause.splitlines())
