"""A lack of disk or memory, explained by what needs it and what to lower."""

from __future__ import annotations

import errno
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import torch

from sage_cli.errors import OutOfMemoryError, TrainingError, is_out_of_memory
from sage_cli.store.run import SEAL, Run
from sage_cli.training.checkpoints import saved_step

_NEARLY_FULL_BYTES = 16 * 2**20


@contextmanager
def disk_explained(folder: Path, unfinished: Path) -> Iterator[None]:
    """Turn a write that failed on a full disk into its cause; what was half written is removed."""
    try:
        yield
    except Exception as error:
        full = getattr(error, "errno", None) in (errno.ENOSPC, errno.EDQUOT)
        if not full and shutil.disk_usage(folder).free > _NEARLY_FULL_BYTES:
            raise
        shutil.rmtree(unfinished, ignore_errors=True)
        kept = any(folder.glob(f"checkpoint-*/{SEAL}"))
        raise TrainingError(
            f"the disk of {folder} is full: {unfinished.name} could not be written",
            ("free some space and run the same command, which resumes from the last checkpoint")
            if kept
            else "free some space and run the same command again",
        ) from error


_GIB = 2**30


@dataclass(frozen=True)
class MemoryNeed:
    """A use of memory, and the settings that reduce it."""

    use: str
    lower: str


LOADING = MemoryNeed(
    "policy, reference and what samples its rollouts",
    "rollout.vllm.memory_share, or set model.tuning=lora",
)


@contextmanager
def memory_explained(need: MemoryNeed, run: Run) -> Iterator[None]:
    """Turn a lack of memory inside, of a GPU or of this machine, into an OutOfMemoryError."""
    try:
        yield
    except (MemoryError, RuntimeError, ValueError, OSError) as error:
        if not is_out_of_memory(error):
            raise
        message = (str(error).strip().splitlines() or [type(error).__name__])[0]
        step = saved_step(run.checkpoints)
        saved = f"; {run.id} is saved at step {step}, where the same command resumes it"
        raise OutOfMemoryError(
            f"training ran out of memory: {_device()} cannot hold {need.use} ({message})",
            f"lower {need.lower}{saved if step else ''}",
        ) from error


def _device() -> str:
    if torch.cuda.is_available():
        total = torch.cuda.get_device_properties(0).total_memory
        return f"the GPU of {total / _GIB:.0f} GiB"
    total = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return f"this machine's memory of {total / _GIB:.0f} GiB"
