"""A space as somebody wrote it: short names, factors of configured values, conditions by name."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Annotated, Any

from pydantic import BeforeValidator, Field, ValidationInfo, field_validator

from sage_cli.config.explain import meant
from sage_cli.config.layers import leaves
from sage_cli.config.schema import SageConfig
from sage_cli.trials.search.space.keys import choice_for, is_whole, key_of, members_with
from sage_cli.trials.search.space.space import (
    Parameter,
    Range,
    Space,
    Value,
    Values,
    is_number,
    several,
)

DOMAINS = ("values", "choices", "times", "range")


def _resolved(given: Any, info: ValidationInfo[SageConfig]) -> Any:
    """Return a written parameter in terms of a full key and of `values` or a `range`."""
    if not isinstance(given, Mapping):
        raise ValueError(f"a parameter has a key and one of {', '.join(DOMAINS)}, not {given!r}")
    told = {name: value for name, value in given.items() if value is not None}
    known = {*Values.model_fields, *Range.model_fields, *DOMAINS}
    for name in told.keys() - known:
        raise ValueError(f"a parameter has no '{name}'{meant(name, sorted(known))}")
    domains = [name for name in DOMAINS if name in told]
    if len(domains) != 1:
        shown = " and ".join(domains) or "none"
        raise ValueError(f"a parameter has one of {', '.join(DOMAINS)}; this one has {shown}")
    told["key"] = key_of(str(told["key"]))
    if domains == ["range"]:
        return {**told, "integer": told.get("integer", False) or is_whole(told["key"])}
    if any(told.pop(name, False) for name in ("log", "integer")):
        raise ValueError("log and integer belong to a range")
    values = told.pop(domains[0])
    if domains == ["times"]:
        values = _multiples(values, told["key"], info.context)
    return {**told, "values": values}


def _multiples(factors: Any, key: str, config: SageConfig) -> list[float]:
    centre = dict(leaves(config.model_dump(mode="json"))).get(key)
    if not is_number(centre):
        raise ValueError(
            f"`times` multiplies {key}, which is {centre!r}: write `values`, or choose what makes "
            "it a number (as --guide branch)"
        )
    try:
        # six digits of a small learning rate too, and none of 0.1 * 3's last ones
        return [float(f"{float(factor) * centre:.6g}") for factor in several(factors)]
    except ValueError:
        raise ValueError(f"times is a list of numbers, not {factors!r}") from None


class WrittenSpace(Space):
    """A file of `sweeps/`, or what was typed; validated with the configuration as context."""

    guide: str | None = None
    """The guide that the space needs."""
    parameters: Annotated[
        dict[str, Annotated[Parameter, BeforeValidator(_resolved)]], Field(min_length=1)
    ]

    @field_validator("parameters", mode="before")
    @classmethod
    def _names_mean_settings(cls, given: Any) -> Any:
        """Give a parameter whose setting isn't said the one that its name means."""
        if not isinstance(given, Mapping):
            return given
        return {
            name: {**one, "key": one.get("key") or name} if isinstance(one, Mapping) else one
            for name, one in given.items()
        }

    @field_validator("parameters")
    @classmethod
    def _conditions_can_be_met(cls, given: dict[str, Parameter]) -> dict[str, Parameter]:
        """Order parameters by their conditions, and shorten their names."""
        counts = Counter(one.key for one in given.values())
        problems = [
            f"{key} is named twice: give all values in one parameter"
            for key, count in counts.items()
            if count > 1
        ]
        parameters = {}
        for name, one in given.items():
            try:
                parameters[name] = one.model_copy(update={"when": _conditions(name, given)})
            except ValueError as error:
                problems.append(str(error))
        if problems:
            raise ValueError("\n".join(problems))
        last = {name: name.rpartition(".")[2] for name in given}
        alike = Counter(last.values())
        short = {name: last[name] if alike[last[name]] == 1 else name for name in given}
        return {short[name]: parameters[name] for name in _in_order(parameters)}


def _conditions(name: str, parameters: Mapping[str, Parameter]) -> dict[str, tuple[Value, ...]]:
    """Return the conditions of a parameter by setting.

    A setting that only some of the searched guides or methods have exists only with those. Raises
    ValueError for a condition that no point meets.
    """
    one, by_key = parameters[name], {other.key: other for other in parameters.values()}
    conditions: dict[str, tuple[Value, ...]] = {}
    for typed, values in one.when.items():
        other = parameters.get(typed) or by_key.get(typed)
        if other is None or other is one:
            close = meant(typed, parameters.keys() - {name})
            raise ValueError(f"{name} exists only with '{typed}', no other parameter here{close}")
        for value in values:
            if isinstance(other, Range) or not other.holds(value):
                raise ValueError(f"{name} exists only with {typed}={value}: list it in {typed}")
        conditions[other.key] = values
    return {**_having_it(one.key, by_key), **conditions}


def _having_it(key: str, by_key: Mapping[str, Parameter]) -> dict[str, tuple[Value, ...]]:
    """Return the condition that a guide or method is chosen which has the setting `key`."""
    choice = choice_for(key)
    chosen, having = by_key.get(choice or ""), members_with(key) if choice in by_key else ()
    if choice is None or not isinstance(chosen, Values) or not having:
        return {}
    fitting = tuple(name for name in chosen.values if name in having)
    if not fitting:
        shown = ", ".join(map(str, chosen.values))
        raise ValueError(f"{key} belongs to {choice} {' or '.join(having)}, not {shown}")
    return {choice: fitting} if fitting != chosen.values else {}


def _in_order(parameters: Mapping[str, Parameter]) -> Iterator[str]:
    """Yield each parameter behind those that it depends on, else as they were written."""
    left, placed = dict(parameters), set[str]()
    while left:
        following = next((name for name, one in left.items() if placed >= set(one.when)), None)
        if following is None:
            names = " and ".join(left)
            raise ValueError(f"{names} exist only with each other, so none of them does")
        placed.add(left.pop(following).key)
        yield following
