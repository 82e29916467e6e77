"""The time of a step by phase, with its peak memory."""

from __future__ import annotations

import resource
import sys
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import torch

from sage_cli.store.run_facts import PHASES

_GIB = 2**30


@dataclass
class Phases:
    """This process's seconds by phase; a phase inside another takes its time away from that."""

    clock: Callable[[], float] = time.perf_counter
    _seconds: defaultdict[str, float] = field(default_factory=lambda: defaultdict(float))
    _inside: list[float] = field(default_factory=list)

    @contextmanager
    def during(self, phase: str) -> Iterator[None]:
        """Count the time inside as `phase`'s."""
        began = self.clock()
        self._inside.append(0.0)
        try:
            yield
        finally:
            if torch.cuda.is_available():
                torch.cuda.synchronize()  # its work belongs to this phase
            took = self.clock() - began
            self._seconds[phase] += took - self._inside.pop()
            if self._inside:
                self._inside[-1] += took

    def record(self, step_s: float, sampled: int, trained: int) -> dict[str, float]:
        """Return the step's seconds, in all and by phase, and tokens a second; then begin anew.

        `trained` tokens are in the step's loss. `sampled` ones are all, replaced groups included,
        in the time that sampling took.
        """
        seconds, self._seconds = self._seconds, defaultdict(float)
        sampling_s = seconds["generate"] + seconds["sync"]
        rate = {"time/generated_tokens_per_s": sampled / sampling_s} if sampled else {}
        return {
            "time/step_s": step_s,
            **{f"time/{phase}_s": seconds[phase] for phase in PHASES},
            "time/trained_tokens_per_s": trained / step_s,
            **rate,
        }


def peak_memory(accelerator: Any) -> dict[str, float]:
    """`memory/peak_gib` since the last call, the highest of all processes; of each, if several.

    That of each process's GPU; without one the process's own memory since it began.
    """
    if torch.cuda.is_available():
        used = torch.cuda.max_memory_allocated()
        torch.cuda.reset_peak_memory_stats()
    else:
        unit = 1 if sys.platform == "darwin" else 1024
        used = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit
    peak = torch.tensor([used / _GIB], device=accelerator.device)
    peaks: list[float] = accelerator.gather(peak).reshape(-1).tolist()
    record = {"memory/peak_gib": max(peaks)}
    if len(peaks) > 1:
        record |= {f"memory/peak_gib/{rank}": value for rank, value in enumerate(peaks)}
    return record
