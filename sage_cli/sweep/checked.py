"""Every value of a space, tried on the schema before anything runs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace

from sage_cli.config.explain import remedy
from sage_cli.config.layers import leaves
from sage_cli.config.load import changed
from sage_cli.config.schema import SageConfig
from sage_cli.errors import ConfigurationError
from sage_cli.sweep.line import typed_value
from sage_cli.sweep.space import Cell, Parameter, Range, Space, Value, Values, cell_key

TRIED_WHOLE = 100
"""Grids of at most so many cells are tried cell by cell; of larger ones each value by itself."""


def checked(space: Space, config: SageConfig) -> Space:
    """`space` with its values as the schema takes them (1 for a fraction is 1.0).

    Raises ConfigurationError that lists every value that the schema refuses.
    """
    problems: dict[str, None] = {}
    parameters = []
    for one in space.parameters:
        taken = [_taken(one, value, space, config, problems) for value in _ends(one)]
        problems |= dict.fromkeys(_repetitions(one.name, taken))
        parameters.append(
            replace(one, domain=Values(tuple(taken))) if isinstance(one.domain, Values) else one
        )
    if not problems and not space.ranges and (space.size or 0) <= TRIED_WHOLE:
        for cell in space.cells():
            problems |= dict.fromkeys(_refusals(cell, config))
    if problems:
        raise ConfigurationError("\n".join(problems), remedy(list(problems)))
    return Space(tuple(parameters))


def _repetitions(name: str, taken: Sequence[Value]) -> Iterator[str]:
    """Values that are one to the schema, or one after rounding, and so one cell."""
    counts = Counter(cell_key({name: value}) for value in taken)
    for ((_, _, value),), count in counts.items():
        if count > 1:
            shown = typed_value(value)
            yield (
                f"{name} has the value {shown} {count} times: a cell is trained once, and factors "
                "of `times` give six significant digits"
            )


def _ends(parameter: Parameter) -> tuple[Value, ...]:
    domain = parameter.domain
    return (domain.low, domain.high) if isinstance(domain, Range) else domain.values


def _taken(
    one: Parameter, value: Value, space: Space, config: SageConfig, problems: dict[str, None]
) -> Value:
    cell = {**_conditions_met(one, space), one.key: value}
    refusals = list(_refusals(cell, config))
    problems |= dict.fromkeys(refusals)
    if refusals:
        return value
    kept = dict(leaves(changed(config, cell).model_dump(mode="json"))).get(one.key)
    return kept if isinstance(kept, bool | int | float | str) else value


def _conditions_met(one: Parameter, space: Space) -> Cell:
    """Values with which `one` exists."""
    others = {other.key: other for other in space.parameters}
    cell: dict[str, Value] = {}
    for key, values in one.when.items():
        cell |= {**_conditions_met(others[key], space), key: values[0]}
    return cell


def _refusals(cell: Cell, config: SageConfig) -> Iterator[str]:
    """What the schema says against a cell, the values that lead there in front."""
    try:
        changed(config, cell)
    except ConfigurationError as error:
        shown = ", ".join(f"{key}={value}" for key, value in cell.items())
        yield from (f"{shown}: {line}" for line in error.cause.splitlines())
