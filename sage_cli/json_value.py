"""JSON that may be corrupt: each fault of a text raises one kind of error; dotted names in it."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any, TypeGuard

_SCALARS = frozenset({str, int, float, bool, type(None), list})


def json_value(text: str | bytes) -> Any:
    """Return the value of a JSON text.

    Raises ValueError for any text that isn't JSON in UTF-8, or is nested too deeply to be read.
    """
    try:
        return json.loads(text.decode("utf-8") if isinstance(text, bytes) else text)
    except RecursionError:
        raise ValueError("it is nested too deeply") from None


def is_number(value: object) -> TypeGuard[float]:
    """Return True if `value` is an integer or a float; true and false are neither."""
    return isinstance(value, int | float) and not isinstance(value, bool)


def leaves(values: Mapping[str, Any], above: str = "") -> Iterator[tuple[str, Any]]:
    """Dotted names and values; empty mappings and lists are leaves."""
    for key, value in values.items():
        name = f"{above}{key}"
        # scalars first: the test for a mapping is slow, and `sage view` reads 1,000 configurations
        if value.__class__ not in _SCALARS and isinstance(value, Mapping) and value:
            yield from leaves(value, f"{name}.")
        else:
            yield name, value


def value_at(values: Mapping[str, Any], name: str) -> Any:
    """Return the leaf of that dotted name; None if there is none."""
    inside: Any = values
    for part in name.split("."):
        if not isinstance(inside, Mapping) or part not in inside:
            return None
        inside = inside[part]
    return None if isinstance(inside, Mapping) and inside else inside
