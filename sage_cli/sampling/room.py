"""How many rows memory has room for, and what to do when it has run out."""

from __future__ import annotations

import gc
from pathlib import Path
from typing import Any

import torch

from sage_cli.planning.memory import sampling
from sage_cli.planning.shape import shape_in

USED = 0.9
"""Share of the free memory that rows may take; buffers grow by doubling."""
_CPU = "DefaultCPUAllocator"
"""How torch's message begins where the system gives no memory; CUDA has an error class."""


def fitting_rows(model: Any, prompt: int, completion: int) -> int | None:
    """Rows of texts so long that free memory holds beside the loaded model; at least 1.

    None where the model's sizes or the free memory can't be told.
    """
    shape = shape_in(model.config.get_text_config().to_dict())
    free = free_bytes(model.device)
    if shape is None or free is None:
        return None
    row = sum(sampling(shape, model.dtype.itemsize, 1, prompt, completion).values())
    return max(1, int(USED * free / row))


def free_bytes(device: torch.device) -> int | None:
    """What is free on a GPU, or may be had of this machine's memory; None where nobody says."""
    if device.type == "cuda":
        cached = torch.cuda.memory_reserved(device) - torch.cuda.memory_allocated(device)
        return int(torch.cuda.mem_get_info(device)[0]) + cached
    try:
        lines = Path("/proc/meminfo").read_text(encoding="ascii").splitlines()
    except OSError:
        return None
    found = [int(line.split()[1]) for line in lines if line.startswith("MemAvailable:")]
    return found[0] * 1024 if found else None


def is_out_of_memory(error: RuntimeError) -> bool:
    """Whether `error` says that memory ran out, of a GPU or of this machine."""
    return isinstance(error, torch.OutOfMemoryError) or _CPU in str(error)


def release() -> None:
    """Give back what nobody names any more."""
    gc.collect()
    if torch.cuda.is_available():
        torch.cuda.empty_cache()
