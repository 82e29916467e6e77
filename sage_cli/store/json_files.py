"""JSON as sage writes it, to files and to stdout, and the reading of its own JSON files."""

from __future__ import annotations

import json
import logging
import math
from dataclasses import fields, is_dataclass
from functools import cache
from pathlib import Path
from typing import Any

from sage_cli.errors import StoreError
from sage_cli.json_value import json_value

log = logging.getLogger(__name__)


class TornError(StoreError):
    """A file of sage that cannot be read because it is torn or was edited."""


def read_object(path: Path, remedy: str) -> dict[str, Any]:
    """Return the JSON object in `path`.

    Raises FileNotFoundError, and TornError with `remedy` as the next step if the file is torn.
    """
    try:
        held = json_value(path.read_bytes())
        if not isinstance(held, dict):
            raise ValueError("it holds no JSON object")
    except ValueError as error:
        raise TornError(f"{path} is torn or was edited: {error}", remedy) from None
    return held


def name_once(torn: TornError) -> None:
    """Warn about a torn file, once in this process."""
    warn_once(f"{torn.cause}; {torn.next_step}")


@cache
def warn_once(text: str) -> None:
    """Warn about a file, once in this process."""
    log.warning("%s", text)


def json_text(value: Any) -> str:
    """Return `value` as indented JSON with a newline.

    Arrays become lists, dataclasses objects of their fields, unknown objects their text. JSON has
    no NaN: an undefined statistic is null, and infinity the text "inf" or "-inf".
    """
    return _dumps(value, indent=2) + "\n"


def compact_json(value: Any) -> str:
    """Return `value` as `json_text` does, on one line."""
    return _dumps(value, separators=(",", ":"))


def _dumps(value: Any, **form: Any) -> str:
    """Return JSON, written by the encoder in C unless there is a NaN or an infinity."""
    settings: dict[str, Any] = {"ensure_ascii": False, "allow_nan": False, **form}
    try:
        return json.dumps(value, default=_unknown, **settings)
    except ValueError:
        return json.dumps(_plain(value), default=str, **settings)


def _unknown(value: Any) -> Any:
    plain = _plain(value)
    return str(value) if plain is value else plain


def _plain(value: Any) -> Any:
    if hasattr(value, "tolist"):  # an array or a number of numpy, which is not imported for this
        return _plain(value.tolist())
    if is_dataclass(value):
        return {field.name: _plain(getattr(value, field.name)) for field in fields(value)}
    if isinstance(value, dict):
        return {key: _plain(inner) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(inner) for inner in value]
    if isinstance(value, float) and not math.isfinite(value):
        return None if math.isnan(value) else str(value)
    return value
