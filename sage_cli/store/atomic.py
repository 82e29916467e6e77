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


@contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """Yield a temporary sibling to write to; on success it takes the place of `path`.

    An OSError names `path` where it named no file: a full disk doesn't say by itself what it lacks.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    # process ids repeat across the machines and containers that share a folder
    temporary = path.with_name(f".{path.name}.{secrets.token_hex(4)}.tmp")
    try:
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
    """Write `text` atomically as UTF-8."""
    with replacing(path) as temporary:
        temporary.write_text(text, encoding="utf-8")


def write_json(path: Path, value: Any) -> None:
    """Write `value` atomically as indented JSON."""
    write_text(path, json_text(value))


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
