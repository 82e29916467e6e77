"""The base of the noisy guides: strengths on a schedule, noise determined by a seed."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from pydantic import Field

from sage_cli.guides.guide import Clock, Guide, Signals

if TYPE_CHECKING:
    from torch import Tensor

_TINY = 2.0**-53
"""Keeps uniform numbers inside (0, 1), so that normal ones are finite: 1 - 2^-53 is the largest
double below 1. In single precision one in 2^25 uniform numbers is rounded to 1."""


class AnnealedGuide(Guide):
    """A guide with noise whose strengths fall from an upper to a lower end, cycle by cycle."""

    cycles: int = Field(8, ge=1)
    """Cosine cycles of the schedule over a training."""
    decay: float = Field(0.9, gt=0, le=1)
    """Factor on the upper end from one cycle to the next."""
    schedule_clock: Clock = "optimiser_step"
    """What moves the schedule on: optimiser steps, or (the authors') each micro-batch's loss."""
    seed: int = 3407
    """Seed of the noise."""

    def annealed(self, step: int, ends: tuple[float, float]) -> float:
        """Return a strength at `step` of the clock; `ends` are the schedule's (upper, lower)."""
        return cosine_cycles(step, ends, self._training_steps, self.cycles, self.decay)

    def noise(self, signals: Signals, step: int) -> Tensor:
        """Return uniform numbers u_2BT, two for every token, laid out as the log-probabilities.

        Row b has a random stream of its own, and token t's numbers do not depend on how long the
        row was padded: the same row gets the same noise in any micro-batch and on any process.
        The global generators are neither read nor moved.
        """
        import numpy as np
        import torch

        rows, tokens = signals.logps_BT.shape
        ids = range(rows) if signals.row_ids_B is None else signals.row_ids_B.tolist()
        uniform_BT2 = np.stack(
            [np.random.default_rng((self.seed, step, row)).random((tokens, 2)) for row in ids]
        )
        return torch.from_numpy(uniform_BT2).permute(2, 0, 1).to(signals.logps_BT)


def cosine_cycles(
    step: int, ends: tuple[float, float], max_steps: int, cycles: int, decay: float
) -> float:
    """Return the value at `step` of cosine annealing in `cycles` equal cycles.

    With (upper, lower) = `ends`, L = max_steps // cycles (at least 1), t = (step mod L) / L and
    c = min(step // L, cycles - 1): value = lower + (upper decay^c - lower) (1 + cos(pi t)) / 2.
    Each cycle starts at its upper end. Beyond the last cycle, which a clock of loss calls reaches,
    the phase continues to wrap and the decay stops.
    """
    upper, lower = ends
    length = max(1, max_steps // cycles)
    phase = (step % length) / length
    top = upper * decay ** min(step // length, cycles - 1)
    return lower + (top - lower) * 0.5 * (1 + math.cos(math.pi * phase))


def to_normal(uniform: Tensor) -> Tensor:
    """Return standard normal numbers from uniform ones, by the inverse distribution function."""
    import torch

    normal: Tensor = torch.special.ndtri(uniform.double().clamp(_TINY, 1 - _TINY))
    return normal.to(uniform)
