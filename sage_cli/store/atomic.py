"""Files and folders that are either wholly there or not there: temporary sibling, fsync, rename."""

from __future__ import annotations

import os
import secrets
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from sage_cli.errors import StoreError
from sage_cli.store.json_files import json_text

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
        os.close(os.open(temporary, os.O_CREAT | os.O_EXCL | os.O_WRONLY, mode))
        yield temporary
        _sync(temporary)
        temporary.replace(path)
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
    unchanged. A crash between the two renames leaves it beside, as `.NAME.….old`.
    """
    folder = folder.resolve()
    folder.parent.mkdir(parents=True, exist_ok=True)
    token = secrets.token_hex(4)
    temporary = folder.with_name(f".{folder.name}.{token}.tmp")
    old = folder.with_name(f".{folder.name}.{token}.old")
    temporary.mkdir()
    try:
        yield temporary
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


def private(path: str, flags: int) -> int:
    """Open a file that only its owner may read, as `opener` of `open`: logs name services."""
    return os.open(path, flags, PRIVATE)


@contextmanager
def storing(folder: Path) -> Iterator[None]:
    """Turn an OSError of the block into a StoreError about `folder`: no space, no permission."""
    try:
        yield
    except OSError as error:
        raise StoreError(
            f"{folder} can't be written: {error.strerror or error}",
            "mend that and run the same command again: what was stored until now is kept",
        ) from error


def _sync(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
