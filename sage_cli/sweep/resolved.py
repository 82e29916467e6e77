"""From what was written to a space: keys for names, values for factors, conditions, an order."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from difflib import get_close_matches

from sage_cli.config.explain import remedy
from sage_cli.config.layers import leaves
from sage_cli.config.schema import SageConfig
from sage_cli.errors import ConfigurationError
from sage_cli.sweep.keys import guides_with, is_whole, key_of
from sage_cli.sweep.space import Parameter, Range, Space, Value, Values
from sage_cli.sweep.written import WrittenParameter, WrittenSpace


def resolved(written: WrittenSpace, config: SageConfig) -> Space:
    """The space in absolute values. Raises ConfigurationError that lists all problems.

    A setting that only some of the searched guides have exists only with those.
    """
    problems: list[str] = []
    keys: dict[str, str] = {}
    for name, one in written.parameters.items():
        try:
            keys[name] = key_of(one.key or name)
        except ConfigurationError as error:
            problems.append(error.cause)
    problems += [f"{key} is named twice" for key, n in Counter(keys.values()).items() if n > 1]
    configured = dict(leaves(config.model_dump(mode="json")))
    found = []
    for name, key in keys.items():
        one = written.parameters[name]
        try:
            domain = _domain(one, key, configured)
            found.append(Parameter(_short(name, keys), key, domain, _conditions(one, name, keys)))
        except ConfigurationError as error:
            problems.append(error.cause)
    if not problems:
        found = [_with_its_guides(one, found, problems) for one in found]
        problems += _unmeetable(found)
    if problems:
        raise ConfigurationError("\n".join(problems), remedy(list(problems)))
    return Space(tuple(_in_order(found)))


def _short(name: str, keys: Mapping[str, str]) -> str:
    """The typed name, or its last part where that is no other parameter's."""
    last = name.rpartition(".")[2]
    alike = [other for other in keys if other.rpartition(".")[2] == last]
    return last if len(alike) == 1 else name


def _domain(one: WrittenParameter, key: str, configured: Mapping[str, object]) -> Values | Range:
    if one.range is not None:
        low, high = one.range
        integer = one.integer or is_whole(key)
        if integer and low.is_integer() and high.is_integer():
            low, high = int(low), int(high)
        return Range(low, high, one.log, integer)
    if one.times is None:
        return Values(one.values or one.choices or ())
    centre = configured.get(key)
    if not isinstance(centre, int | float) or isinstance(centre, bool):
        raise ConfigurationError(
            f"the space multiplies {key}, which is {centre!r} here: choose what has it "
            "(as --guide branch), or give the values themselves"
        )
    # six digits of a small learning rate too, and none of 0.1 * 3's last ones
    return Values(tuple(float(f"{factor * centre:.6g}") for factor in one.times))


def _conditions(
    one: WrittenParameter, name: str, keys: Mapping[str, str]
) -> dict[str, tuple[Value, ...]]:
    """The conditions by setting; `keys` holds the parameters' settings by name."""
    found = {}
    for other, values in one.when.items():
        key = keys.get(other, other)
        if key not in keys.values() or key == keys[name]:
            close = get_close_matches(other, keys, n=1)
            meant = f" (did you mean {close[0]}?)" if close and close[0] != name else ""
            raise ConfigurationError(
                f"{name} exists only with some '{other}', which is no other parameter of the "
                f"space{meant}"
            )
        found[key] = values
    return found


def _with_its_guides(one: Parameter, parameters: list[Parameter], problems: list[str]) -> Parameter:
    """`one` with the condition that follows from the guides that are searched."""
    searched = next((p.domain for p in parameters if p.key == "guide.name"), None)
    having = guides_with(one.key) if one.key.startswith("guide.") else ()
    if not isinstance(searched, Values) or not having or "guide.name" in (one.key, *one.when):
        return one
    fitting = tuple(value for value in searched.values if value in having)
    if not fitting:
        shown = ", ".join(map(str, searched.values))
        problems.append(f"{one.key} is a setting of {', '.join(having)}, not of {shown}")
    if fitting == searched.values:
        return one
    return Parameter(one.name, one.key, one.domain, {**one.when, "guide.name": fitting})


def _unmeetable(parameters: list[Parameter]) -> Iterator[str]:
    """Conditions that no cell meets."""
    domains = {one.key: one.domain for one in parameters}
    for one in parameters:
        for key, values in one.when.items():
            domain = domains[key]
            if isinstance(domain, Range):
                yield f"{one.name} exists only with values of {key}, which has a range"
            elif strange := [value for value in values if value not in domain]:
                shown = ", ".join(map(str, domain.values))
                yield f"{one.name} exists with {key}={strange[0]}, which is none of {shown}"


def _in_order(parameters: list[Parameter]) -> Iterator[Parameter]:
    """Each parameter behind those that it depends on, else as they were written."""
    left, placed = list(parameters), set[str]()
    while left:
        following = next((one for one in left if placed >= set(one.when)), None)
        if following is None:
            names = " and ".join(one.name for one in left)
            raise ConfigurationError(f"{names} exist only with each other, so none of them does")
        left.remove(following)
        placed.add(following.key)
        yield following
