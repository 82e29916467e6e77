"""Random guide: noise on a few tokens' anchor (Eq. 9)."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from sage_cli.guides.guide import Clock, Guide
from sage_cli.guides.noise import row_noise, to_normal
from sage_cli.guides.schedule import PAPER_SCHEDULE, CosineCycles
from sage_cli.guides.signals import Signals


@dataclass(frozen=True, kw_only=True)
class RandomGuide(Guide):
    """With probability epsilon_s q_t = 1 + sigma_s z, z ~ N(0, 1), otherwise 1.

    `epsilon` and `sigma` are (upper, lower) ends of the schedule.
    """

    epsilon: tuple[float, float] = (0.1, 0.0)
    sigma: tuple[float, float] = (0.15, 0.05)
    schedule: CosineCycles = PAPER_SCHEDULE
    seed: int = 3407
    q_min: float = 0.6
    q_max: float = 1.4
    clock: Clock = "optimiser_step"

    def q(self, signals: Signals, step: int) -> Tensor:
        """Eq. 9 at step `step` of the clock."""
        epsilon = self.schedule.value(step, *self.epsilon)
        sigma = self.schedule.value(step, *self.sigma)
        chosen_BT, draw_BT = row_noise(signals.logps_BT, signals.row_ids_B, self.seed, step)
        noisy_BT = 1 + sigma * to_normal(draw_BT)
        return torch.where(chosen_BT < epsilon, noisy_BT, torch.ones_like(noisy_BT))
