"""The content hash of a file, computed once for as long as the file stays the same.

Hashes are remembered by (path, size, modification time) in the user's cache folder, so that a
command that loads no model doesn't read fifteen gigabytes of weights to name them.
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


def file_hash(path: Path) -> str:
    """The SHA-256 of a file's content in hexadecimal digits. Raises OSError as reading does."""
    status = path.stat()
    if status.st_size < _SMALL:
        return content_hash(path)
    key = str(path.resolve())
    state = [status.st_size, status.st_mtime_ns]
    entries = _remembered_in(cache_file())
    if key in entries and entries[key][:2] == state:
        return str(entries[key][2])
    digest = content_hash(path)
    entries[key] = [*state, digest]
    _remember(key, entries[key])
    return digest


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
    """Return the names in `sealed_hashes` of files that `folder` lacks or whose content differs."""

    def differs(name: str) -> bool:
        try:
            return hash_of(folder / name) != str(sealed[name])
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
    """The entries of the cache; none if it is absent, torn or malformed."""
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
