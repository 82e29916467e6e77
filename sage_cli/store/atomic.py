"""Files that are either wholly there or not there: temporary file, fsync, rename."""

from __future__ import annotations

import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from sage_cli.errors import StoreError
from sage_cli.store.json_text import json_text

PRIVATE = 0o600


@contextmanager
def replacing(path: Path, mode: int = 0o666) -> Iterator[Path]:
    """Yield a temporary sibling to write to; on success it takes the place of `path`.

    The umask takes from `mode` what it does from all files. An OSError names `path` where it named
    no file: a full disk doesn't say by itself what it lacks.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    # process ids repeat across the machines and containers that share a folder
    temporary = path.with_name(f".{path.name}.{secrets.token_hex(4)}.tmp")
    try:
        os.close(os.open(temporary, os.O_CREAT | os.O_EXCL | os.O_WRONLY, mode))
        yield temporary
        with temporary.open("rb") as written:
            os.fsync(written.fileno())
        temporary.replace(path)
        _sync_folder(path.parent)
    except OSError as error:
        if error.errno is not None and error.filename is None:
            error.filename = str(path)
        raise
    finally:
        temporary.unlink(missing_ok=True)


def write_text(path: Path, text: str) -> None:
    """Write `text` atomically as UTF-8.

    JSON that holds an address is its owner's alone to read: it may name servers and databases.
    """
    mode = PRIVATE if path.suffix == ".json" and "://" in text else 0o666
    with replacing(path, mode) as temporary:
        temporary.write_text(text, encoding="utf-8")


def write_json(path: Path, value: Any) -> None:
    """Write `value` atomically as indented JSON."""
    write_text(path, json_text(value))


def private(path: str, flags: int) -> int:
    """Open a file that only its owner may read, as `opener` of `open`: logs name services too."""
    return os.open(path, flags, PRIVATE)


@contextmanager
def storing(folder: Path) -> Iterator[None]:
    """Name what the file system refuses inside: no space, no permission, too many files."""
    try:
        yield
    except OSError as error:
        raise StoreError(
            f"{folder} can't be written: {error.strerror or error}",
            "mend that and type the same command again: what was stored until now is kept",
        ) from error


def _sync_folder(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
