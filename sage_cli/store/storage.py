"""Whether a folder can hold runs: its disk, its rights, its locks."""

from __future__ import annotations

import secrets
import shutil
from contextlib import suppress
from pathlib import Path

from sage_cli.errors import (
    StoreError,
)
from sage_cli.store.locks import (
    PATIENCE_S,
    locked,
)

LEAST_FREE = 1 << 30
"""Bytes below which a training's checkpoints may not fit."""
_PROBE = ".sage-probe"


def require_storage(root: Path, least_free: int = LEAST_FREE) -> str:
    """Return a description of the folder of runs after a lock was taken in it.

    If the folder does not exist yet, its nearest existing parent is checked. Raises StoreError if
    nothing can be written or locked there, or less than `least_free` bytes are free.
    """
    root = root.absolute()
    folder = next(path for path in (root, *root.parents) if path.exists())
    if not folder.is_dir():
        raise StoreError(f"{folder} is a file", "choose another folder with --runs or $SAGE_RUNS")
    probe = folder / f"{_PROBE}-{secrets.token_hex(4)}"
    try:
        with locked(probe, PATIENCE_S):
            pass
    finally:
        with suppress(OSError):
            probe.unlink(missing_ok=True)
    free = shutil.disk_usage(folder).free
    if free < least_free:
        raise StoreError(
            f"{root} has {free / (1 << 30):.1f} GiB free, and checkpoints may not fit",
            "free some space there, or choose another folder with --runs or $SAGE_RUNS",
        )
    return f"{root}: {free / (1 << 30):.0f} GiB free, locks work"
