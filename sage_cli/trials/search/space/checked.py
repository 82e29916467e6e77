"""Check every value of a space against the schema before anything runs."""

from __future__ import annotations

from collections import Counter

from sage_cli.config.explain import remedy
from sage_cli.config.layers import leaves
from sage_cli.config.load import changed
from sage_cli.config.schema import SageConfig
from sage_cli.errors import ConfigurationError
from sage_cli.trials.search.space.space import Point, Space, Value, Values, value_key

TRIED_WHOLE = 100
"""The largest grid that is tried point by point; of larger ones each value is tried by itself."""


def checked(space: Space, config: SageConfig) -> Space:
    """Return `space` with its values as the schema takes them (1 for a fraction is 1.0).

    Raises ConfigurationError that lists every value that the schema refuses.
    """
    problems: list[str] = []
    parameters = dict(space.parameters)
    conditions: dict[str, Point] = {}  # values with which a setting exists
    for name, one in space.parameters.items():
        met: dict[str, Value] = {}
        for key, values in one.when.items():
            met |= {**conditions[key], key: values[0]}
        conditions[one.key] = met
        given = one.values if isinstance(one, Values) else one.range
        taken = [_taken({**met, one.key: value}, one.key, config, problems) for value in given]
        if isinstance(one, Values):
            parameters[name] = one.model_copy(update={"values": tuple(taken)})
        problems += [
            f"{name} has the value {value} {count} times: give each value once (products of "
            "`times` are rounded to six significant digits)"
            for (_, value), count in Counter(map(value_key, taken)).items()
            if count > 1
        ]
    if not problems and not space.ranges and (space.size or 0) <= TRIED_WHOLE:
        for point in space.points():
            _tried(point, config, problems)
    if problems:
        unique = list(dict.fromkeys(problems))
        raise ConfigurationError("\n".join(unique), remedy(unique))
    return Space(parameters=parameters)


def _taken(point: Point, key: str, config: SageConfig, problems: list[str]) -> Value:
    """Return the value of `key` in `point` as the schema takes it."""
    tried = _tried(point, config, problems)
    taken = dict(leaves(tried.model_dump(mode="json"))).get(key) if tried else None
    return taken if isinstance(taken, bool | int | float | str) else point[key]


def _tried(point: Point, config: SageConfig, problems: list[str]) -> SageConfig | None:
    """Return the configuration at a point; None, with its problems noted, if it has any."""
    try:
        return changed(config, point)
    except ConfigurationError as error:
        shown = ", ".join(f"{key}={value}" for key, value in point.items())
        problems += [f"{shown}: {line}" for line in error.cause.splitlines()]
        return None
