"""Time of a step by phase, and its peak memory."""

from __future__ import annotations

import resource
import sys
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor

PHASES = ("generate", "sync", "grade", "reference", "loss")
"""Sampling completions, handing weights to the engine, grading, log-probabilities of frozen and
earlier policies, and the loss with its gradients. What is left of a step is mostly the optimiser's.
"""
_GIB = 2**30


def settle_device() -> None:
    """Wait for what was asked of the GPU, so that its time counts where it was asked."""
    if torch.cuda.is_available():
        torch.cuda.synchronize()


class Phases:
    """This process's seconds by phase; a phase inside another takes its time away from that."""

    def __init__(
        self,
        settle: Callable[[], None] = settle_device,
        clock: Callable[[], float] = time.perf_counter,
    ) -> None:
        self._settle, self._clock = settle, clock
        self._seconds: defaultdict[str, float] = defaultdict(float)
        self._inside: list[float] = []

    @contextmanager
    def during(self, phase: str) -> Iterator[None]:
        """Count the time inside as `phase`'s."""
        began = self._clock()
        self._inside.append(0.0)
        try:
            yield
        finally:
            self._settle()
            took = self._clock() - began
            self._seconds[phase] += took - self._inside.pop()
            if self._inside:
                self._inside[-1] += took

    def record(self, step_s: float, sampled: int, trained: int) -> dict[str, float]:
        """The step's seconds in all and by phase in this process, and tokens a second in all.

        `trained` tokens are in the step's loss. `sampled` ones are all, replaced groups included,
        in the time that sampling took.
        """
        seconds = self.drain()
        sampling_s = seconds["generate"] + seconds["sync"]
        rate = {"time/generated_tokens_per_s": sampled / sampling_s} if sampled else {}
        return {
            "time/step_s": step_s,
            **{f"time/{phase}_s": value for phase, value in seconds.items()},
            "time/trained_tokens_per_s": trained / step_s,
            **rate,
        }

    def drain(self) -> dict[str, float]:
        """The seconds of each phase since the last call."""
        seconds, self._seconds = self._seconds, defaultdict(float)
        return {phase: seconds[phase] for phase in PHASES}


def peak_memory(accelerator: Any) -> dict[str, float]:
    """`memory/peak_gib` since the last call, the highest of all processes; of each, if several.

    That of each process's GPU; without one the process's own memory since it began.
    """
    peak = torch.tensor([_peak_bytes() / _GIB], device=accelerator.device)
    every: list[float] = _gathered(peak, accelerator).tolist()
    found = {"memory/peak_gib": max(every)}
    if len(every) > 1:
        found |= {f"memory/peak_gib/{rank}": value for rank, value in enumerate(every)}
    return found


def _gathered(values: Tensor, accelerator: Any) -> Tensor:
    gathered: Tensor = accelerator.gather(values)
    return gathered.reshape(-1)


def _peak_bytes() -> int:
    if torch.cuda.is_available():
        peak = torch.cuda.max_memory_allocated()
        torch.cuda.reset_peak_memory_stats()
        return int(peak)
    unit = 1 if sys.platform == "darwin" else 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit
