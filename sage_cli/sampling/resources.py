"""What this machine can bear: rows that fit into memory, threads for a model."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch

from sage_cli.models.memory import sampling
from sage_cli.models.shape import shape_in

USED = 0.9
"""Share of the free memory for rows: buffers grow by doubling, and graphs hold logits."""
PARAMETERS_PER_THREAD = 1_000_000


def fitting_rows(model: Any, prompt: int, completion: int) -> int | None:
    """Return how many rows of prompt and completion tokens fit into free memory; at least 1.

    None if the model's sizes or the free memory are unknown.
    """
    shape = shape_in(model.config.get_text_config().to_dict())
    free = free_bytes(model.device)
    if shape is None or free is None:
        return None
    # attention inside an autocast is float32
    width = 4 if torch.is_autocast_enabled(model.device.type) else model.dtype.itemsize
    row = sum(sampling(shape, width, 1, prompt, completion).values())
    return max(1, int(USED * free / row))


def free_bytes(device: torch.device) -> int | None:
    """Return the free bytes of a GPU or of this machine's memory; None if they are unknown."""
    if device.type == "cuda":
        # what torch's allocator holds without using it is free for us, though not for the driver
        cached = torch.cuda.memory_reserved(device) - torch.cuda.memory_allocated(device)
        return int(torch.cuda.mem_get_info(device)[0]) + cached
    try:
        lines = Path("/proc/meminfo").read_text(encoding="ascii").splitlines()
    except OSError:
        return None
    available = (int(line.split()[1]) for line in lines if line.startswith("MemAvailable:"))
    kib = next(available, None)
    return None if kib is None else kib * 1024


@contextmanager
def threads_for(model: Any) -> Iterator[None]:
    """On the CPU, let torch use one thread per million parameters of `model`, at most as now.

    Threads synchronise after each operation. If operations take microseconds, that costs more than
    it saves as soon as another task, such as grading, needs a core.
    """
    before = torch.get_num_threads()
    if model.device.type == "cpu":
        parameters = sum(weight.numel() for weight in model.parameters())
        torch.set_num_threads(max(1, min(before, parameters // PARAMETERS_PER_THREAD)))
    try:
        yield
    finally:
        torch.set_num_threads(before)
