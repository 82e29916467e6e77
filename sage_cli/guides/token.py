"""Token guide: more anchor on surprising tokens, with noise (Eq. 10)."""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor

from sage_cli.guides.guide import Clock, Guide, Signal
from sage_cli.guides.noise import row_noise, to_normal
from sage_cli.guides.schedule import PAPER_SCHEDULE, CosineCycles
from sage_cli.guides.signals import Signals
from sage_cli.guides.surprisal import normalised_surprisal


@dataclass(frozen=True, kw_only=True)
class TokenGuide(Guide):
    """q_t ~ N(1 + alpha_s w_t, (sigma_s w_t)^2), w_t the row-normalised surprisal.

    `alpha` and `sigma` are (upper, lower) ends of the schedule; `norm` is `minmax`, `rank` or
    `zscore`.
    """

    alpha: tuple[float, float] = (0.3, 0.1)
    sigma: tuple[float, float] = (0.25, 0.1)
    norm: str = "minmax"
    schedule: CosineCycles = PAPER_SCHEDULE
    seed: int = 3407
    q_min: float = 0.6
    q_max: float = 1.4
    signal: Signal = "policy"
    clock: Clock = "optimiser_step"

    def q(self, signals: Signals, step: int) -> Tensor:
        """Eq. 10 at step `step` of the clock."""
        alpha = self.schedule.value(step, *self.alpha)
        sigma = self.schedule.value(step, *self.sigma)
        w_BT = normalised_surprisal(signals.logps_BT, signals.mask_BT, self.norm)
        if sigma == 0:
            return 1 + alpha * w_BT
        draw_BT, _ = row_noise(signals.logps_BT, signals.row_ids_B, self.seed, step)
        return 1 + w_BT * (alpha + sigma * to_normal(draw_BT))
