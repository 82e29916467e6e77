"""Running out of GPU memory or disk, said in the user's words."""

from __future__ import annotations

import errno
import math
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import torch

from sage_cli.errors import OutOfMemoryError, TrainingError

_GIB = 2**30
_NEARLY_FULL_BYTES = 16 * 2**20


@contextmanager
def memory_explained(micro_batch: int, max_tokens: int) -> Iterator[None]:
    """Turn an out-of-memory error into what was asked for, what may fit, and what to change."""
    resident = torch.cuda.memory_allocated() if torch.cuda.is_available() else 0
    try:
        yield
    except torch.OutOfMemoryError as error:
        total = torch.cuda.get_device_properties(0).total_memory
        fits = fitting_micro_batch(micro_batch, resident, torch.cuda.max_memory_allocated(), total)
        raise OutOfMemoryError(
            f"the GPU's {total / _GIB:.0f} GiB don't hold {micro_batch} completions of up to "
            f"{max_tokens} tokens at once ({str(error).splitlines()[0]})",
            f"about {fits} may fit: --set rl.micro_batch={fits}; besides, "
            "rl.gradient_checkpointing=true, a smaller rollout.max_tokens, or LoRA",
        ) from error


def fitting_micro_batch(micro_batch: int, resident: int, peak: int, total: int) -> int:
    """Completions that may fit into `total` bytes, a tenth kept free; at least 1.

    What lies above `resident` (weights) at the `peak` is taken to grow with the micro-batch; the
    peak was cut short, so it counts as the whole of the memory at least.
    """
    per_completion = max(peak, total) - resident
    room = 0.9 * total - resident
    return max(1, min(micro_batch - 1, math.floor(micro_batch * room / max(per_completion, 1))))


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
        kept = any(folder.glob("checkpoint-*/sealed.json"))
        raise TrainingError(
            f"the disk of {folder} is full: {torn.name} couldn't be written",
            "make room and run the same command: it goes on from the last checkpoint"
            if kept
            else "make room and run the same command again",
        ) from error
