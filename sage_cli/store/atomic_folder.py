"""Folders that are either wholly there or not there."""

from __future__ import annotations

import os
import secrets
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def replacing_folder(folder: Path) -> Iterator[Path]:
    """Yield an empty temporary sibling to fill; on success it takes the place of `folder`.

    What was at `folder` is deleted only once the new one stands there; an error leaves it as it
    was. A crash between the two renames leaves it beside, as `.NAME.….old`.
    """
    folder = folder.resolve()
    folder.parent.mkdir(parents=True, exist_ok=True)
    token = secrets.token_hex(4)
    temporary, old = (
        folder.with_name(f".{folder.name}.{token}.{suffix}") for suffix in ("tmp", "old")
    )
    temporary.mkdir()
    try:
        yield temporary
        for file in temporary.rglob("*"):
            if file.is_file():
                with file.open("rb") as written:
                    os.fsync(written.fileno())
        if folder.exists():
            folder.rename(old)
        temporary.rename(folder)
        shutil.rmtree(old, ignore_errors=True)
    finally:
        shutil.rmtree(temporary, ignore_errors=True)
