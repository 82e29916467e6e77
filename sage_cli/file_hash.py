"""The content hash of a file, computed once for as long as the file stays the same.

Hashes are remembered by (path, size, modification time) in the user's cache folder, so that a
command that loads no model doesn't read fifteen gigabytes of weights to name them. A byte that rots
on the disk changes neither size nor time, and a backup that is restored may have both: whoever uses
the content itself reads it again (`read_hash`, `models/verification.py`).
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from pathlib import Path
from threading import Lock
from typing import Any

from sage_cli.json_value import json_value

_SMALL = 1 << 16
"""Bytes below which hashing is faster than remembering."""
_writing = Lock()
"""Held while an entry is added, or threads would write the cache without each other's entries."""


_read_here: set[tuple[str, int, int]] = set()
"""Path, size and modification time of the files whose hashes this process has computed itself."""


def file_hash(path: Path) -> str:
    """Return the SHA-256 of a file's content in hexadecimal digits, if need be without reading it.

    Raises OSError as reading does.
    """
    return remembered_hash(path) or rehash(path)


def read_hash(path: Path) -> str:
    """Return the SHA-256 of a file that is about to be used, read at least once in this process.

    Raises OSError.
    """
    return file_hash(path) if _state(path) in _read_here else rehash(path)


def remembered_hash(path: Path) -> str | None:
    """Return the hash of a file that has kept its size and time since it was read; else None.

    Files that are read faster than that are never remembered. Raises OSError.
    """
    key, *state = _state(path)
    entry = _remembered_in(cache_file()).get(key)
    return str(entry[2]) if entry is not None and entry[:2] == state else None


def rehash(path: Path) -> str:
    """Read a file and return its SHA-256, which is remembered in place of an earlier one."""
    key, size, time = _state(path)
    digest = content_hash(path)
    if size >= _SMALL:
        _read_here.add((key, size, time))
        entry = _remembered_in(cache_file())[key] = [size, time, digest]
        _remember(key, entry)
    return digest


def _state(path: Path) -> tuple[str, int, int]:
    status = path.stat()
    return str(path.resolve()), status.st_size, status.st_mtime_ns


def sealed_hashes(
    folder: Path, files: Iterable[Path], hash_of: Callable[[Path], str] = file_hash
) -> dict[str, str]:
    """Return the SHA-256 of files by their paths below `folder`, several read at once."""
    paths = sorted(path for path in files if path.is_file())
    with ThreadPoolExecutor() as threads:
        hashes = list(threads.map(hash_of, paths))
    names = (str(path.relative_to(folder)) for path in paths)
    return dict(zip(names, hashes, strict=True))


def changed_files(
    folder: Path, sealed: Mapping[str, Any], hash_of: Callable[[Path], str] = file_hash
) -> list[str]:
    """Return the names in `sealed_hashes` of files that `folder` lacks or whose content differs.

    No file is blamed for what was only remembered of it: it may have been repaired meanwhile.
    """

    def differs(name: str) -> bool:
        path, wanted = folder / name, str(sealed[name])
        try:
            return hash_of(path) != wanted and rehash(path) != wanted
        except OSError:
            return True

    with ThreadPoolExecutor() as threads:
        differing = list(threads.map(differs, sealed))
    return [name for name, is_other in zip(sealed, differing, strict=True) if is_other]


def cache_file() -> Path:
    """The cache file of hashes: below `$XDG_CACHE_HOME`, which is ~/.cache unless it is set."""
    folder = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(folder) / "sage" / "hashes.json"


def content_hash(path: Path) -> str:
    """Return the SHA-256 of a file's content, which is read. Raises OSError."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


@cache
def _remembered_in(file: Path) -> dict[str, list[int | str]]:
    return _read(file)


def _read(file: Path) -> dict[str, list[int | str]]:
    """The entries of the cache; none if it is absent, corrupt or malformed."""
    try:
        entries = json_value(file.read_bytes())
    except (OSError, ValueError):
        return {}
    if not isinstance(entries, dict):
        return {}
    return {
        key: entry
        for key, entry in entries.items()
        if isinstance(entry, list) and len(entry) == 3 and isinstance(entry[2], str)
    }


def _remember(key: str, entry: list[int | str]) -> None:
    """Add an entry to what other processes have written meanwhile; a cache may fail."""
    file = cache_file()
    temporary = file.with_name(f".{file.name}.{os.getpid()}.tmp")
    with _writing, contextlib.suppress(OSError):
        file.parent.mkdir(parents=True, exist_ok=True)
        temporary.write_text(json.dumps({**_read(file), key: entry}), encoding="utf-8")
        temporary.replace(file)
