"""From `--space` to a search space: a shipped name, a file, or the space itself.

The space itself: `tau=0.2:0.8,lr=1e-5:1e-3:log,steps=10:40:int,algo=grpo|dapo`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from itertools import permutations
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from sage_cli.config.explain import meant, remedy
from sage_cli.config.layers import leaves
from sage_cli.config.load import changed
from sage_cli.config.schema import SageConfig
from sage_cli.errors import ConfigurationError
from sage_cli.guides import Guide
from sage_cli.settings.presets import read_yaml, shipped
from sage_cli.trials.search.space.keys import key_of, members_with
from sage_cli.trials.search.space.space import (
    Point,
    Space,
    Value,
    Values,
    is_number,
    value_key,
    value_of,
)
from sage_cli.trials.search.space.written import WrittenSpace

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
        problems = dict.fromkeys(line for one in error.errors() for line in _sentences(one))
        cause = "\n".join(f"{source}{problem}" for problem in problems)
        raise ConfigurationError(cause, EXAMPLE) from None
    return checked(space, config)


def guide_of(text: str) -> str | None:
    """Return the guide that a space needs: the one it names, or the only one with its settings.

    Guides made from another one, which have its settings too, are not meant by these. None where
    it searches guides, needs none in particular, or can't be read.
    """
    written, _ = _written(text)
    keys = []
    parameters = written.get("parameters")
    for name, one in parameters.items() if isinstance(parameters, dict) else ():
        with suppress(AttributeError, ConfigurationError):  # `read_space` says what is wrong
            keys.append(key_of(str(one.get("key") or name)))
    if written.get("guide") is not None or "guide.name" in keys:
        return written.get("guide")
    having = [
        set(names) for key in keys if key.startswith("guide.") and (names := members_with(key))
    ]
    guides = set.intersection(*having) if having else set()
    kinds = {name: Guide.named(name) for name in guides}
    guides -= {
        name for name, other in permutations(guides, 2) if issubclass(kinds[name], kinds[other])
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
        known = sorted(file.stem for file in shipped("sweeps").glob("*.yaml"))
        raise ConfigurationError(
            f"there is no search space '{text}'{meant(path.stem, known)}; there are "
            f"{', '.join(known)}",
            'give one of these, the path of a YAML file, or the space itself, as "tau=0.2:0.8"',
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
        said, _, condition = part.partition(" if ")
        name, domain = _pair(said, part)
        if name in parameters:
            raise ConfigurationError(f"the space names {name} twice", EXAMPLE)
        parameters[name] = _domain(domain, part)
        if condition:
            pairs = [_pair(one, part) for one in condition.split(" and ")]
            parameters[name]["when"] = {other: values.split("|") for other, values in pairs}
    return {"parameters": parameters}


def _pair(text: str, part: str) -> tuple[str, str]:
    name, equals, value = (piece.strip() for piece in text.partition("="))
    if not (name and equals and value):
        raise ConfigurationError(f"'{part}' is no parameter of a space: name=values", EXAMPLE)
    return name, value


def _domain(text: str, part: str) -> dict[str, Any]:
    low, *others = (piece.strip() for piece in text.split(":"))
    if not others or not is_number(value_of(low)):
        return {"values": text.split("|")}
    for kind in others[1:]:
        if kind not in _KINDS:
            raise ConfigurationError(
                f"'{part}': a range is low:high, low:high:log or low:high:int, and '{kind}' is "
                f"neither{meant(kind, _KINDS)}",
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
        yield f"{' '.join([name, *path[3:4]])} is {complaint.get('input')!r}: {message}"


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
