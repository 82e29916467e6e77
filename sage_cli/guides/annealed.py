"""The base of the noisy guides: strengths on a schedule, noise determined by a seed."""

from __future__ import annotations

import hashlib
import math
from typing import TYPE_CHECKING, Any

from pydantic import Field

from sage_cli.guides.guide import Clock, Guide, Signals
from sage_cli.splitmix import GOLDEN, mixed, shifted

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
        """Return uniform numbers u_2BT, two for every token, laid out as the log-probabilities."""
        return uniforms((self.seed, step), signals, 2).to(signals.logps_BT)

    def determinants(self) -> dict[str, Any]:
        """Return the settings that decide a result, and where the noise comes from."""
        return super().determinants() | NOISE


NOISE = {"noise": "splitmix64"}
"""What identities of guides with noise hold since it comes from a counter."""


def uniforms(key: tuple[int, int], signals: Signals, count: int) -> Tensor:
    """Return numbers in [0, 1 - 2^-53], `count` for each token, as double precision (count, B, T).

    They are a function of key (seed, step), row id and place, computed on the signals' device: the
    same row gets the same numbers in any micro-batch, however padded, and on any process. A row's
    are the outputs of SplitMix64, whose seeds are the outputs of another for the key.
    """
    import torch

    rows, tokens = signals.logps_BT.shape
    device, ids_B = signals.logps_BT.device, signals.row_ids_B
    rows_B = torch.arange(rows, device=device) if ids_B is None else ids_B.to(device)
    digest = hashlib.blake2b(repr(key).encode(), digest_size=8).digest()
    seed = int.from_bytes(digest, "little", signed=True)
    # places of a token lie side by side: what is padded on the right has further ones
    places_NT = torch.arange(tokens * count, device=device).reshape(tokens, count).T
    z_NBT = mixed(mixed(seed + (rows_B + 1) * GOLDEN)[:, None] + (places_NT + 1)[:, None] * GOLDEN)
    uniform_NBT: Tensor = shifted(z_NBT, 11).double() * _TINY
    return uniform_NBT


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
