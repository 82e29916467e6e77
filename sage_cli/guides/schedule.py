"""The schedule of the noisy guides' strengths."""

from __future__ import annotations

import math
from dataclasses import dataclass


@dataclass(frozen=True)
class CosineCycles:
    """Cosine annealing inside equal cycles whose upper end decays from one to the next.

    With L = max_steps // cycles (at least 1), t = (step mod L) / L and
    c = min(step // L, cycles - 1): value = lower + (upper decay^c - lower) (1 + cos(pi t)) / 2.
    Beyond the last cycle, where a clock of loss calls comes, the phase goes on wrapping and the
    decay stops.
    """

    max_steps: int
    cycles: int = 8
    decay: float = 0.9

    def value(self, step: int, upper: float, lower: float) -> float:
        """The value at `step` of the guide's clock; each cycle starts at its upper end."""
        length = max(1, self.max_steps // self.cycles)
        phase = (step % length) / length
        cycle = min(step // length, self.cycles - 1)
        top = upper * self.decay**cycle
        return lower + (top - lower) * 0.5 * (1 + math.cos(math.pi * phase))


PAPER_SCHEDULE = CosineCycles(max_steps=1000)
"""Eight cycles over the 1,000 optimiser steps of Table 8."""
