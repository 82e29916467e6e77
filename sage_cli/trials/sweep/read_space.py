"""From `--space` to a search space: a shipped name, a file, or the space itself.

The space itself: `tau=0.2:0.8,lr=1e-5:1e-3:log,steps=10:40:int,algo=grpo|dapo`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import suppress
from itertools import permutations
from pathlib import Path
from typing import Annotated, Any

from pydantic import BeforeValidator, Field, ValidationError, ValidationInfo, field_validator

from sage_cli.config.explain import meant, remedy
from sage_cli.config.load import changed, typed
from sage_cli.config.readers import deciding_choices, unread
from sage_cli.config.schema import SageConfig
from sage_cli.errors import ConfigurationError, in_short
from sage_cli.guides import Guide
from sage_cli.json_value import is_number, leaves
from sage_cli.settings.shipped import shipped
from sage_cli.settings.yaml_files import read_yaml
from sage_cli.trials.sweep.space import (
    Parameter,
    Point,
    Range,
    SettingValue,
    Space,
    Values,
    choice_for,
    find_key,
    is_whole,
    members_with,
    several,
    value_key,
    value_of,
)

DOMAINS = ("values", "choices", "times", "range")


def _resolved(given: Any, info: ValidationInfo[SageConfig]) -> Any:
    """Return a written parameter in terms of a full key and of `values` or a `range`."""
    if not isinstance(given, Mapping):
        raise ValueError(
            f"a parameter has a key and one of {', '.join(DOMAINS)}, not {in_short(given)}"
        )
    told = {name: value for name, value in given.items() if value is not None}
    names = {*Values.model_fields, *Range.model_fields, *DOMAINS}
    for name in told.keys() - names:
        raise ValueError(f"a parameter has no '{name}'{meant(name, sorted(names))}")
    domains = [name for name in DOMAINS if name in told]
    if len(domains) != 1:
        given_domains = " and ".join(domains) or "none"
        raise ValueError(
            f"a parameter has one of {', '.join(DOMAINS)}; this one has {given_domains}"
        )
    told["key"] = find_key(str(told["key"]))
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
            f"`times` multiplies {key}, which is {centre!r}: write `values`, or choose "
            "what makes it a number (for example --guide branch)"
        )
    try:
        # six digits of a small learning rate too, and none of 0.1 * 3's last ones
        return [float(f"{float(factor) * centre:.6g}") for factor in several(factors)]
    except ValueError:
        raise ValueError(f"times is a list of numbers, not {in_short(factors)}") from None


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
            name: {**parameter, "key": parameter.get("key") or name}
            if isinstance(parameter, Mapping)
            else parameter
            for name, parameter in given.items()
        }

    @field_validator("parameters")
    @classmethod
    def _conditions_can_be_met(
        cls, given: dict[str, Parameter], info: ValidationInfo[SageConfig]
    ) -> dict[str, Parameter]:
        """Order parameters by their conditions, and shorten their names."""
        counts = Counter(parameter.key for parameter in given.values())
        problems = [
            f"{key} is named twice: give all values in one parameter"
            for key, count in counts.items()
            if count > 1
        ]
        parameters = {}
        for name, parameter in given.items():
            try:
                parameters[name] = parameter.model_copy(
                    update={"when": _conditions(name, given, info.context)}
                )
            except ValueError as error:
                problems.append(str(error))
        if problems:
            raise ValueError("\n".join(problems))
        last = {name: name.rpartition(".")[2] for name in given}
        alike = Counter(last.values())
        short = {name: last[name] if alike[last[name]] == 1 else name for name in given}
        return {short[name]: parameters[name] for name in _in_order(parameters)}


def _conditions(
    name: str, parameters: Mapping[str, Parameter], config: SageConfig
) -> dict[str, tuple[SettingValue, ...]]:
    """Return the conditions of a parameter by setting.

    A setting that only some of the searched guides or methods have exists only with those, and one
    that some values of a searched choice leave unread only with the others. Raises ValueError for a
    condition that no point meets.
    """
    parameter, by_key = (
        parameters[name],
        {searched.key: searched for searched in parameters.values()},
    )
    conditions: dict[str, tuple[SettingValue, ...]] = {}
    for written, values in parameter.when.items():
        condition = parameters.get(written) or by_key.get(written)
        if condition is None or condition is parameter:
            close = meant(written, parameters.keys() - {name})
            raise ValueError(f"{name} exists only with '{written}', no other parameter here{close}")
        for value in values:
            if isinstance(condition, Range) or not condition.holds(value):
                raise ValueError(f"{name} exists only with {written}={value}: list it in {written}")
        conditions[condition.key] = values
    read = _reading_it(parameter.key, by_key, config)
    return {**read, **_having_it(parameter.key, by_key), **conditions}


def _reading_it(
    key: str, by_key: Mapping[str, Parameter], config: SageConfig
) -> dict[str, tuple[SettingValue, ...]]:
    """Return the conditions that searched choices are values with which something reads `key`.

    So `kl=reverse|none,beta=0.1|0.2` has three points: no KL term has no weight. A choice that only
    some points have makes no condition, since what holds in the others isn't known here.
    """
    conditions = {}
    for choice in deciding_choices(config, key):
        searched = by_key.get(choice)
        if not isinstance(searched, Values) or searched.when or choice == key:
            continue
        reading = tuple(
            value for value in searched.values if not _leaves_unread(choice, value, key, config)
        )
        if 0 < len(reading) < len(searched.values):
            conditions[choice] = reading
    return conditions


def _leaves_unread(choice: str, value: SettingValue, key: str, config: SageConfig) -> bool:
    try:
        return unread(changed(config, {choice: value}), key) is not None
    except ConfigurationError:
        return False  # `check_space` says what is wrong with the value


def _having_it(key: str, by_key: Mapping[str, Parameter]) -> dict[str, tuple[SettingValue, ...]]:
    """Return the condition that a guide or method is chosen which has the setting `key`."""
    choice = choice_for(key)
    chosen, having = by_key.get(choice or ""), members_with(key) if choice in by_key else ()
    if choice is None or not isinstance(chosen, Values) or not having:
        return {}
    fitting = tuple(name for name in chosen.values if name in having)
    if not fitting:
        names = ", ".join(map(str, chosen.values))
        raise ValueError(f"{key} belongs to {choice} {' or '.join(having)}, not {names}")
    return {choice: fitting} if fitting != chosen.values else {}


def _in_order(parameters: Mapping[str, Parameter]) -> Iterator[str]:
    """Yield each parameter behind those that it depends on, else as they were written."""
    left, placed = dict(parameters), set[str]()
    while left:
        following = next(
            (name for name, parameter in left.items() if placed >= set(parameter.when)), None
        )
        if following is None:
            names = " and ".join(left)
            raise ValueError(f"{names} exist only with each other, so none of them does")
        placed.add(left.pop(following).key)
        yield following


EXAMPLE = (
    'a space is written as "tau=0.2:0.8,lr=1e-5:1e-3:log,algo=grpo|dapo,delta=2:5 if algo=dapo", '
    "or in a file as `tau: {key: guide.tau, values: [0.2, 0.4]}` below `parameters:`"
)
_KINDS = {"log": "log", "int": "integer"}
TRIED_WHOLE = 100
"""The largest grid that is tried point by point; of larger ones each value is tried by itself."""


def read_space(text: str, config: SageConfig) -> Space:
    """Return the space that `text` means, every key and value checked against the schema.

    Raises ConfigurationError that lists all problems.
    """
    written, source = _written(text)
    guide = written.get("guide")
    if guide not in (None, config.guide.name):
        raise ConfigurationError(
            f"the space '{text}' needs guide {guide}, and the configuration has guide "
            f"{config.guide.name}",
            f"add --guide {guide}",
        )
    try:
        space = WrittenSpace.model_validate(written, context=config)
    except ValidationError as error:
        problems = dict.fromkeys(
            line for complaint in error.errors() for line in _sentences(complaint)
        )
        cause = "\n".join(f"{source}{problem}" for problem in problems)
        raise ConfigurationError(cause, EXAMPLE) from None
    return check_space(space, config)


def searched_settings(text: str) -> list[str]:
    """Return the dotted names of the settings that a space searches, as far as it can be read."""
    keys, parameters = [], _written(text)[0].get("parameters")
    for name, parameter in parameters.items() if isinstance(parameters, dict) else ():
        with suppress(AttributeError, ConfigurationError):  # `read_space` says what is wrong
            keys.append(find_key(str(parameter.get("key") or name)))
    return keys


def guide_of(text: str) -> str | None:
    """Return the guide that a space needs: the one it names, or the only one with its settings.

    Guides made from another one, which have its settings too, are not meant by these. None where
    it searches guides, needs none in particular, or can't be read.
    """
    keys, (written, _) = searched_settings(text), _written(text)
    if written.get("guide") is not None or "guide.name" in keys:
        return written.get("guide")
    having = [
        set(names) for key in keys if key.startswith("guide.") and (names := members_with(key))
    ]
    guides = set.intersection(*having) if having else set()
    kinds = {name: Guide.named(name) for name in guides}
    guides -= {
        name for name, base in permutations(guides, 2) if issubclass(kinds[name], kinds[base])
    }
    return guides.pop() if len(guides) == 1 else None


def _written(text: str) -> tuple[dict[str, Any], str]:
    """Return what was written, and the prefix of its problems: its file's path, if any."""
    if "=" in text:
        return parse_line(text), ""
    path = Path(text)
    if path.suffix not in (".yaml", ".yml"):
        path = shipped("sweeps") / f"{text.replace(',', '-').replace(' ', '')}.yaml"
    if not path.is_file():
        shipped_names = sorted(file.stem for file in shipped("sweeps").glob("*.yaml"))
        ranges = "tau=0.2:0.8"
        if "," in text:
            ranges = ",".join(f"{name.strip()}=LOW:HIGH" for name in text.split(","))
        raise ConfigurationError(
            f"there is no search space '{text}'{meant(path.stem, shipped_names)}; there are "
            f"{', '.join(shipped_names)}",
            f'give one of these, the path of a YAML file, or a range for each setting: "{ranges}"',
        )
    return read_yaml(path), f"{path}: "


def parse_line(text: str) -> dict[str, Any]:
    """Return the content of a file that says the same as a typed space.

    Commas divide parameters. Each is `name=low:high`, with `:log` or `:int` behind it, or
    `name=value|value`. ` if other=value|value` behind a parameter limits it to points with these
    values; ` and ` adds a condition. Raises ConfigurationError.
    """
    parameters: dict[str, Any] = {}
    for part in filter(None, map(str.strip, text.split(","))):
        assignment, _, condition = part.partition(" if ")
        name, domain = _pair(assignment, part)
        if name in parameters:
            raise ConfigurationError(f"the space names {name} twice", EXAMPLE)
        parameters[name] = _domain(domain, part)
        if condition:
            pairs = [_pair(text, part) for text in condition.split(" and ")]
            parameters[name]["when"] = {key: values.split("|") for key, values in pairs}
    return {"parameters": parameters}


def _pair(text: str, part: str) -> tuple[str, str]:
    name, equals, value = (piece.strip() for piece in text.partition("="))
    if not (name and equals and value):
        raise ConfigurationError(
            f"'{part}' is not a parameter of a space, which has the form name=values", EXAMPLE
        )
    return name, value


def _domain(text: str, part: str) -> dict[str, Any]:
    low, *others = (piece.strip() for piece in text.split(":"))
    if not others or not is_number(value_of(low)):
        return {"values": text.split("|")}
    for kind in others[1:]:
        if kind not in _KINDS:
            raise ConfigurationError(
                f"'{part}': unknown kind of range '{kind}'; a range is low:high, "
                f"low:high:log or low:high:int{meant(kind, _KINDS)}",
                EXAMPLE,
            )
    return {"range": [low, others[0]], **{_KINDS[kind]: True for kind in others[1:]}}


def _sentences(complaint: Any) -> Iterator[str]:
    """Yield what is wrong with a parameter, its name in front."""
    path = [str(part) for part in complaint["loc"]]
    name = path[1] if len(path) > 1 else path[0]
    if complaint["type"] == "value_error":
        error = complaint["ctx"]["error"]
        bare = len(path) == 1 or isinstance(error, ConfigurationError)
        yield from (line if bare else f"{name}: {line}" for line in str(error).splitlines())
    elif complaint["type"] == "extra_forbidden":
        yield f"a space has no '{name}'{meant(name, WrittenSpace.model_fields)}"
    elif complaint["type"] == "missing":
        yield f"'{name}' is missing"
    else:
        message = complaint["msg"][0].lower() + complaint["msg"][1:]
        # a union's tag, which nobody wrote, is the third part of a path
        yield f"{' '.join([name, *path[3:4]])} is {in_short(complaint.get('input'))}: {message}"


def check_space(space: Space, config: SageConfig) -> Space:
    """Return `space` with its values as the schema takes them (1 for a fraction is 1.0).

    Raises ConfigurationError that lists every value that the schema refuses.
    """
    problems: list[str] = []
    parameters = dict(space.parameters)
    conditions: dict[str, Point] = {}  # values with which a setting exists
    for name, parameter in space.parameters.items():
        met: dict[str, SettingValue] = {}
        for key, values in parameter.when.items():
            met |= {**conditions[key], key: values[0]}
        conditions[parameter.key] = met
        given = parameter.values if isinstance(parameter, Values) else parameter.range
        taken = [
            _taken({**met, parameter.key: value}, parameter.key, config, problems)
            for value in given
        ]
        if isinstance(parameter, Values):
            parameters[name] = parameter.model_copy(update={"values": tuple(taken)})
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


def _taken(point: Point, key: str, config: SageConfig, problems: list[str]) -> SettingValue:
    """Return the value of `key` in `point` as the schema takes it."""
    tried = _tried(point, config, problems)
    taken = dict(leaves(tried.model_dump(mode="json"))).get(key) if tried else None
    return taken if isinstance(taken, bool | int | float | str) else point[key]


def _tried(point: Point, config: SageConfig, problems: list[str]) -> SageConfig | None:
    """Return the configuration at a point; None, with its problems noted, if it has any."""
    try:
        tried = changed(config, point)
    except ConfigurationError as error:
        settings = ", ".join(f"{key}={value}" for key, value in point.items())
        problems += [f"{settings}: {line}" for line in error.cause.splitlines()]
        return None
    for key in point:
        if idle := unread(tried, key):
            choice, value, reading = idle
            problems.append(
                f"{key} has no effect: {choice} is {in_short(value)} (add --set "
                f"{choice}={typed(reading)}, or search {key} only where it is read)"
            )
    return tried
