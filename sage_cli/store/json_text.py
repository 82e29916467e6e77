"""JSON as sage writes it, to files and to stdout."""

from __future__ import annotations

import json
import math
from dataclasses import fields, is_dataclass
from typing import Any


def json_text(value: Any) -> str:
    """`value` as indented JSON with a line's end.

    Arrays are lists, dataclasses objects of their fields; what is unknown is its text.
    JSON has no NaN: an undefined statistic is null, and infinity the text "inf" or "-inf".
    """
    text = json.dumps(_plain(value), indent=2, ensure_ascii=False, allow_nan=False, default=str)
    return text + "\n"


def _plain(value: Any) -> Any:
    if hasattr(value, "tolist"):  # an array or a number of numpy, which is not imported for this
        return _plain(value.tolist())
    if is_dataclass(value):
        return {one.name: _plain(getattr(value, one.name)) for one in fields(value)}
    if isinstance(value, dict):
        return {key: _plain(inner) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(inner) for inner in value]
    if isinstance(value, float) and not math.isfinite(value):
        return None if math.isnan(value) else str(value)
    return value
