"""JSON files with a checksum, by which corrupt ones are found."""

from __future__ import annotations

import json
import logging
import math
import time
from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from functools import cache
from pathlib import Path
from typing import Any

from sage_cli.errors import StoreError
from sage_cli.json_value import json_value
from sage_cli.store.files import write_text
from sage_cli.store.result_hash import key_of

log = logging.getLogger(__name__)
CHECKSUM = "checksum"
"""The key of an object's checksum: `key_of` its other keys."""
TICK_S = 0.1
"""More than the step by which file systems count time."""
STORED_AT_MOST = 512
_STORED: dict[Path, tuple[tuple[int, int, int], dict[str, Any]]] = {}
"""Objects of files that were read, with inode, size and time of the file, the latest at the end."""


class CorruptFileError(StoreError):
    """A file of sage that cannot be read because it is corrupt or was edited."""


def read_object(path: Path, remedy: str) -> dict[str, Any]:
    """Return the JSON object in `path`, without the checksum that `write_object` gave it.

    Raises FileNotFoundError, and CorruptFileError with `remedy` as the next step if the file is
    corrupt or no longer has its checksum.
    """
    try:
        return without_checksum(json_value(path.read_bytes()))
    except ValueError as error:
        raise CorruptFileError(f"{path} is corrupt or was edited: {error}", remedy) from None


def read_stored(path: Path, remedy: str) -> dict[str, Any]:
    """Return `read_object` of a file that is replaced when it changes, read once until it is.

    Every writer of ours replaces a file (`write_object`), so another content has another inode,
    size or time. A file that is younger than a clock's tick is read again each time, since two
    writes within one would look alike. The object is shared: change a copy of it.
    """
    about = path.stat()
    signature = (about.st_ino, about.st_size, about.st_mtime_ns)
    kept = _STORED.get(path)
    if kept is None or kept[0] != signature:
        kept = signature, read_object(path, remedy)
        _STORED.pop(path, None)
        if time.time() - about.st_mtime > TICK_S:
            _STORED[path] = kept
            if len(_STORED) > STORED_AT_MOST:
                _STORED.pop(next(iter(_STORED)), None)
    return kept[1]


def without_checksum(content: Any) -> dict[str, Any]:
    """Return an object without its checksum. Raises ValueError if it isn't an object, or its."""
    if not isinstance(content, dict):
        raise ValueError("it is not a JSON object")
    # files of versions before checksums have none, and are taken as they are
    if (checksum := content.pop(CHECKSUM, None)) is not None and checksum != key_of(content):
        raise ValueError("its content does not match its checksum")
    return content


def warn_of_corrupt_file(error: CorruptFileError) -> None:
    """Warn about a corrupt file, once in this process."""
    warn_once(f"{error.cause}; {error.next_step}")


@cache
def warn_once(text: str) -> None:
    """Warn about a file, once in this process."""
    log.warning("%s", text)


def without_nan(value: Any) -> Any:
    """Return `value` with None for each number in it that isn't finite."""
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, Mapping):
        return {key: without_nan(each) for key, each in value.items()}
    return [without_nan(each) for each in value] if isinstance(value, list | tuple) else value


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


def write_json(path: Path, value: Any) -> None:
    """Write `value` atomically as indented JSON."""
    write_text(path, json_text(value))


def write_object(path: Path, value: Mapping[Any, Any]) -> None:
    """Write an object atomically as JSON with its checksum, which `read_object` compares."""
    write_json(path, with_checksum(value))


def with_checksum(value: Mapping[Any, Any]) -> dict[str, Any]:
    """Return an object as plain JSON with its checksum, which `read_object` compares."""
    # through JSON and back, so that the checksum is of what a reader gets: tuples have become
    # lists, NaN null
    plain: dict[str, Any] = json_value(json_text(value).encode())
    return {**plain, CHECKSUM: key_of(plain)}
