"""A space on the command line: `tau=0.2:0.8,lr=1e-5:1e-3:log,steps=10:40:int,algo=grpo|dapo`."""

from __future__ import annotations

import re
from difflib import get_close_matches
from typing import Any

from sage_cli.errors import ConfigurationError
from sage_cli.sweep.space import Parameter, Space, Value, Values
from sage_cli.sweep.written import WrittenSpace, value_of, written_space

EXAMPLE = 'write it as "tau=0.2:0.8,lr=1e-5:1e-3:log,algo=grpo|dapo,delta=2:5 if algo=dapo"'
_KINDS = {"log": "log", "int": "integer"}


def is_line(text: str) -> bool:
    """Whether `text` is a space itself and no name of one."""
    return "=" in text


def parse_line(text: str) -> WrittenSpace:
    """Parameters apart by commas: `low:high`, with `:log` or `:int`, or values apart by `|`.

    ` if other=value|value` behind one says when it exists, further conditions follow an ` and `.
    Raises ConfigurationError.
    """
    parameters: dict[str, Any] = {}
    for part in filter(None, map(str.strip, text.split(","))):
        told, _, condition = part.partition(" if ")
        name, domain = _pair(told, part)
        if name in parameters:
            raise ConfigurationError(f"the space names {name} twice", EXAMPLE)
        parameters[name] = _domain(domain, part)
        if condition:
            pairs = [_pair(one, part) for one in condition.split(" and ")]
            parameters[name]["when"] = {other: values.split("|") for other, values in pairs}
    return written_space({"parameters": parameters}, "the space")


def line_of(space: Space) -> str:
    """What would be typed for `space`, names in full."""
    return ",".join(map(_written, space.parameters))


def _pair(text: str, part: str) -> tuple[str, str]:
    name, equals, value = (piece.strip() for piece in text.partition("="))
    if not (name and equals and value):
        raise ConfigurationError(f"'{part}' is no parameter of a space: name=values", EXAMPLE)
    return name, value


def _domain(text: str, part: str) -> dict[str, Any]:
    ends = [piece.strip() for piece in text.split(":")]
    if len(ends) == 1 or not isinstance(value_of(ends[0]), int | float):
        return {"values": [piece.strip() for piece in text.split("|")]}
    low, high, *kinds = ends
    wrong = [kind for kind in kinds if kind not in _KINDS]
    if wrong:
        close = get_close_matches(wrong[0], _KINDS, n=1)
        meant = f" (did you mean {close[0]}?)" if close else ""
        raise ConfigurationError(
            f"'{part}': a range is low:high, low:high:log or low:high:int, and '{wrong[0]}' is "
            f"neither{meant}",
            EXAMPLE,
        )
    return {"range": [low, high], **{_KINDS[kind]: True for kind in kinds}}


def _written(parameter: Parameter) -> str:
    domain = parameter.domain
    if isinstance(domain, Values):
        shown = "|".join(map(typed_value, domain.values))
    else:
        kinds = (":log" if domain.log else "") + (":int" if domain.integer else "")
        shown = f"{typed_value(domain.low)}:{typed_value(domain.high)}{kinds}"
    conditions = [f"{key}={'|'.join(map(typed_value, of))}" for key, of in parameter.when.items()]
    return " if ".join(filter(None, (f"{parameter.key}={shown}", " and ".join(conditions))))


def typed_value(value: Value) -> str:
    """A value as it would be typed: `true`, `1` for 1.0."""
    return str(value).lower() if isinstance(value, bool) else re.sub(r"\.0$", "", str(value))
