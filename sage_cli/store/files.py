"""Files and JSON that are wholly written or not at all, and hashes of what determines a result."""

from __future__ import annotations

import hashlib
import json
import logging
import math
import os
import re
import secrets
import shutil
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import fields, is_dataclass
from functools import cache
from glob import escape
from pathlib import Path, PurePath
from typing import Any

from sage_cli import RESULT_VERSION
from sage_cli.errors import StoreError, SurroundingsError
from sage_cli.json_value import json_value

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


def portable(name: str) -> str:
    """Return a name of a benchmark or a model as it stands in the names of files.

    Shells, `scp` and other systems read the signs of `arithmetic:held_out=60` as something else.
    A data file's ending is left out, and nothing else behind a dot.
    """
    return re.sub("[/:=]", "-", _DATA_ENDING.sub("", name))


def file_stems(names: Iterable[str]) -> dict[str, str]:
    """Return names -> what stands for them in reports' file names, with folders if need be."""
    names = list(names)
    stems = {name: _unspaced(PurePath(name).name) for name in names}
    distinct = len({*stems.values()}) == len(stems)
    return stems if distinct else {name: _unspaced(name) for name in names}


def _unspaced(name: str) -> str:
    return re.sub(",? ", "-", portable(name))


_DATA_ENDING = re.compile(r"\.(?:jsonl?|csv|parquet|eval)(?=[:,]|$)")


EIGHT_DIGITS = "[0-9a-f]" * 8
"""The pattern of the hexadecimal digits in names of sage: whatever else is there is the user's."""
LEFT_S = 30.0
"""Seconds after which what nobody has written to is left by a killed process."""


def sweep(leftovers: Iterable[Path], now_s: float) -> None:
    """Remove half-written files and folders, and half-deleted ones, that nobody has touched."""
    for path in leftovers:
        with suppress(OSError):  # removed meanwhile, or another user's
            touched_s = max(part.lstat().st_mtime for part in (path, *path.rglob("*")))
            if touched_s < now_s - LEFT_S:
                shutil.rmtree(path) if path.is_dir() else path.unlink()


PRIVATE = 0o600


@contextmanager
def replacing(path: Path, mode: int = 0o666) -> Iterator[Path]:
    """Yield a temporary sibling to write to; on success it takes the place of `path`.

    The umask applies to `mode`. An OSError without a file name gets that of `path`: a full disk
    names no file.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    # process ids repeat across the machines and containers that share a folder
    temporary = path.with_name(f".{path.name}.{secrets.token_hex(4)}.tmp")
    try:
        # created with its mode before anything is written: a chmod afterwards would leave a moment
        # in which others may read it
        os.close(os.open(temporary, os.O_CREAT | os.O_EXCL | os.O_WRONLY, mode))
        yield temporary
        _sync(temporary)
        temporary.replace(path)
        # the rename is an entry of the folder: without this a power cut may bring back the old
        # file, or on some file systems an empty one
        _sync(path.parent)
    except OSError as error:
        if error.errno is not None and error.filename is None:
            error.filename = str(path)
        raise
    finally:
        temporary.unlink(missing_ok=True)


@contextmanager
def replacing_folder(folder: Path) -> Iterator[Path]:
    """Yield an empty temporary sibling to fill; on success it takes the place of `folder`.

    The earlier content of `folder` is deleted once the new one is in place; an error leaves it
    unchanged. A crash between the two renames leaves it beside, called `.NAME.….old`.
    """
    folder = folder.resolve()
    folder.parent.mkdir(parents=True, exist_ok=True)
    token = secrets.token_hex(4)
    temporary = folder.with_name(f".{folder.name}.{token}.tmp")
    old = folder.with_name(f".{folder.name}.{token}.old")
    temporary.mkdir()
    leftovers = folder.parent.glob(f".{escape(folder.name)}.{EIGHT_DIGITS}.*")
    sweep(leftovers, temporary.stat().st_mtime)
    try:
        yield temporary
        # a folder cannot be replaced atomically: its files are on the disk first, so that after a
        # crash between the two renames either the old or the new one is whole
        for file in temporary.rglob("*"):
            if file.is_file():
                _sync(file)
        if folder.exists():
            folder.rename(old)
        temporary.rename(folder)
        shutil.rmtree(old, ignore_errors=True)
    finally:
        shutil.rmtree(temporary, ignore_errors=True)


def write_text(path: Path, text: str) -> None:
    """Write `text` atomically as UTF-8.

    Only its owner may read JSON that holds an address: it may name servers and databases.
    """
    mode = PRIVATE if path.suffix == ".json" and "://" in text else 0o666
    with replacing(path, mode) as temporary:
        temporary.write_text(text, encoding="utf-8")


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


def private(path: str, flags: int) -> int:
    """Open a file that only its owner may read, because logs name services (see `open`)."""
    return os.open(path, flags, PRIVATE)


@contextmanager
def storing(folder: Path) -> Iterator[None]:
    """Turn an OSError of the block into a StoreError about `folder`: no space, no permission."""
    try:
        yield
    except OSError as error:
        raise SurroundingsError(error, folder) from error


def _sync(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def identity_of(kind: str, determinants: Any) -> str:
    """Return the hash of settings, data, parent and the code's result version, in hexadecimal."""
    # sorted keys: the order in which settings were typed names no other run. The version is part of
    # it, so that a release that computes something else shares no results with an earlier one.
    text = json.dumps([RESULT_VERSION, kind, determinants], sort_keys=True, default=str)
    return hashlib.sha256(text.encode()).hexdigest()


def key_of(determinants: Any) -> str:
    """Return sixteen hexadecimal digits that name the folder of `determinants`."""
    return hashlib.sha256(_canonical(determinants).encode()).hexdigest()[:16]


_canonical = json.JSONEncoder(sort_keys=True, separators=(",", ":"), default=str).encode
