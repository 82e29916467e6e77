"""A check of the folder of runs: permissions, space, locks, and file systems of several hosts."""

from __future__ import annotations

import secrets
import shutil
from contextlib import suppress
from pathlib import Path

from sage_cli.errors import StoreError
from sage_cli.store.lock import PATIENCE_S, locked

LEAST_FREE = 1 << 30
"""Bytes below which a training's checkpoints may not fit."""
SHARED = ("nfs", "nfs4", "cifs", "smb3", "lustre", "beegfs", "gpfs", "ceph", "glusterfs", "9p")
"""File systems that several hosts share."""
_PROBE = ".sage-probe"
_MOUNTS = Path("/proc/mounts")


def require_storage(root: Path, least_free: int = LEAST_FREE) -> str:
    """Return a description of the folder of runs after a lock was taken in it.

    If the folder does not exist yet, its nearest existing parent is checked. Raises StoreError if
    nothing can be written or locked there, or less than `least_free` bytes are free.
    """
    root = root.absolute()
    folder = next(path for path in (root, *root.parents) if path.exists())
    if not folder.is_dir():
        raise StoreError(f"{folder} is a file", "name another folder with --runs or $SAGE_RUNS")
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
            "make room there, or name another folder with --runs or $SAGE_RUNS",
        )
    kind = file_system(folder)
    shared = f"{kind}, which other hosts may share" if kind in SHARED else kind or "local"
    return f"{root}: {free / (1 << 30):.0f} GiB free, locks work, {shared}"


def file_system(folder: Path, mounts: Path = _MOUNTS) -> str | None:
    """Return the type of the file system of `folder`, such as `ext4`; None if it is unknown.

    `mounts` has a line of device, mount point, type and options for each file system.
    """
    try:
        lines = [line.split() for line in mounts.read_text().splitlines()]
    except OSError:  # not Linux
        return None
    within = [
        (len(words[1]), words[2])
        for words in lines
        if len(words) > 2 and folder.resolve().is_relative_to(words[1].replace("\\040", " "))
    ]
    return max(within)[1] if within else None
