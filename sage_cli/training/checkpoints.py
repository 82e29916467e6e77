"""Checkpoints that are either whole or ignored: sealed once every file is on the disk."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path

from sage_cli.store.atomic import write_json

_SEAL = "sealed.json"


def seal(checkpoint: Path) -> None:
    """Flush every file to the disk, then write down their sizes: from now on it counts."""
    sizes = {}
    for file in sorted(path for path in checkpoint.rglob("*") if path.is_file()):
        with file.open("rb") as handle:
            os.fsync(handle.fileno())
        sizes[str(file.relative_to(checkpoint))] = file.stat().st_size
    write_json(checkpoint / _SEAL, sizes)


def newest_sealed(folder: Path) -> Path | None:
    """The last whole checkpoint below `folder`; torn ones, as a kill leaves them, are removed."""
    whole = []
    for checkpoint in folder.glob("checkpoint-*"):
        if _is_whole(checkpoint):
            whole.append(checkpoint)
        else:
            shutil.rmtree(checkpoint)
    return max(whole, key=step_of, default=None)


def rotate(folder: Path, keep: int) -> None:
    """Remove all but the last `keep` sealed checkpoints."""
    sealed = sorted((path.parent for path in folder.glob(f"checkpoint-*/{_SEAL}")), key=step_of)
    for checkpoint in sealed[:-keep]:
        (checkpoint / _SEAL).unlink()
        shutil.rmtree(checkpoint)


def step_of(checkpoint: Path) -> int:
    """The optimiser step in a checkpoint's name."""
    return int(checkpoint.name.rsplit("-", 1)[1])


def _is_whole(checkpoint: Path) -> bool:
    try:
        sizes = json.loads((checkpoint / _SEAL).read_text(encoding="utf-8"))
        return all((checkpoint / name).stat().st_size == size for name, size in sizes.items())
    except (OSError, ValueError):
        return False
