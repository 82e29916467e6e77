"""Running out of disk, said in the user's words."""

from __future__ import annotations

import errno
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from sage_cli.errors import TrainingError
from sage_cli.store.runs.run import SEAL

_NEARLY_FULL_BYTES = 16 * 2**20


@contextmanager
def disk_explained(folder: Path, torn: Path) -> Iterator[None]:
    """Turn a write that failed on a full disk into its cause; what was half written is removed."""
    try:
        yield
    except Exception as error:
        full = getattr(error, "errno", None) in (errno.ENOSPC, errno.EDQUOT)
        if not full and shutil.disk_usage(folder).free > _NEARLY_FULL_BYTES:
            raise
        shutil.rmtree(torn, ignore_errors=True)
        kept = any(folder.glob(f"checkpoint-*/{SEAL}"))
        raise TrainingError(
            f"the disk of {folder} is full: {torn.name} couldn't be written",
            "make room and run the same command: it resumes from the last checkpoint"
            if kept
            else "make room and run the same command again",
        ) from error
