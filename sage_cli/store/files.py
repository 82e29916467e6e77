"""Files and folders that are wholly written or not at all."""

from __future__ import annotations

import os
import secrets
import shutil
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from glob import escape
from pathlib import Path

from sage_cli.errors import SurroundingsError
from sage_cli.store.file_names import EIGHT_DIGITS

PRIVATE = 0o600
LEFT_S = 30.0
"""Seconds after which what nobody has written to is left by a killed process."""


def sweep(leftovers: Iterable[Path], now_s: float) -> None:
    """Remove half-written files and folders, and half-deleted ones, that nobody has touched."""
    for path in leftovers:
        with suppress(OSError):  # removed meanwhile, or another user's
            touched_s = max(part.lstat().st_mtime for part in (path, *path.rglob("*")))
            if touched_s < now_s - LEFT_S:
                shutil.rmtree(path) if path.is_dir() else path.unlink()


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
