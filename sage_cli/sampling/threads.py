"""How many threads one operation of a small model deserves."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch

PARAMETERS_PER_THREAD = 1_000_000


@contextmanager
def threads_for(model: Any) -> Iterator[None]:
    """On the CPU, let torch use one thread per million parameters of `model`, at most as now.

    Threads meet after each operation. Where operations take microseconds, the meetings cost more
    than the sharing saves as soon as anything else, such as grading, wants a core.
    """
    before = torch.get_num_threads()
    if model.device.type == "cpu":
        parameters = sum(weight.numel() for weight in model.parameters())
        torch.set_num_threads(max(1, min(before, parameters // PARAMETERS_PER_THREAD)))
    try:
        yield
    finally:
        torch.set_num_threads(before)
