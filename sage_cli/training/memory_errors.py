"""Running out of memory is one error that names what was asked for and what to lower."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import torch

from sage_cli.errors import OutOfMemoryError
from sage_cli.store.run import Run
from sage_cli.training.checkpoints import saved_step

_GIB = 2**30
_NO_MEMORY = re.compile(
    r"out of memory|can't allocate memory|No available memory for the cache|KV cache is needed|"
    r"less than desired GPU memory utilization",
    re.I,
)
"""What PyTorch on CPUs and vLLM at its start say, in errors of no kind of their own."""


@dataclass(frozen=True)
class MemoryNeed:
    """A use of memory, and the settings that reduce it."""

    what: str
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
    except (torch.OutOfMemoryError, MemoryError, RuntimeError, ValueError) as error:
        by_kind = isinstance(error, torch.OutOfMemoryError | MemoryError)
        if not by_kind and not _NO_MEMORY.search(str(error)):
            raise
        message = (str(error).strip().splitlines() or [type(error).__name__])[0]
        step = saved_step(run.checkpoints)
        saved = f"; {run.id} is saved at step {step}, where the same command resumes it"
        raise OutOfMemoryError(
            f"the training ran out of memory: {_device()} can't hold {need.what} ({message})",
            f"lower {need.lower}{saved if step else ''}",
        ) from error


def _device() -> str:
    if torch.cuda.is_available():
        total = torch.cuda.get_device_properties(0).total_memory
        return f"the GPU of {total / _GIB:.0f} GiB"
    total = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return f"this machine's memory of {total / _GIB:.0f} GiB"
