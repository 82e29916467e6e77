"""The folder of runs as a place to write: rights, room, locks, and whether other hosts see it."""

from __future__ import annotations

import secrets
import shutil
from contextlib import suppress
from pathlib import Path

from sage_cli.errors import StoreError
from sage_cli.store.lock import PATIENCE_S, locked

LEAST_FREE = 1 << 30
"""Bytes below which a training's checkpoints may find no room."""
SHARED = ("nfs", "nfs4", "cifs", "smb3", "lustre", "beegfs", "gpfs", "ceph", "glusterfs", "9p")
"""File systems that several hosts see."""
_PROBE = ".sage-probe"
_MOUNTS = Path("/proc/mounts")


def require_place(root: Path, least_free: int = LEAST_FREE) -> str:
    """Describe the folder of runs, in which a lock was held for a moment.

    Where the folder doesn't exist yet its nearest existing parent is tried. Raises StoreError where
    nothing can be written or locked there, or less than `least_free` bytes are free.
    """
    folder = next(one for one in (root.absolute(), *root.absolute().parents) if one.exists())
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
            f"{root} has {free / (1 << 30):.1f} GiB free, and checkpoints may find no room",
            "make room there, or name another folder with --runs or $SAGE_RUNS",
        )
    kind = file_system(folder)
    shared = f"{kind}, which other hosts may share" if kind in SHARED else kind or "local"
    return f"{root.absolute()}: {free / (1 << 30):.0f} GiB free, locks work, {shared}"


def file_system(folder: Path, mounts: Path = _MOUNTS) -> str | None:
    """The kind of file system that `folder` lies in, as `ext4`; None where the kernel doesn't say.

    `mounts` has a line for each: device, mount point, kind, options.
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
