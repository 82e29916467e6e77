"""Random guide: noise on a few tokens' anchor, a control (Eq. 9)."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar, Literal

from pydantic import model_validator

from sage_cli.guides.guide import AnnealedGuide, Signals, to_normal

if TYPE_CHECKING:
    from torch import Tensor


class RandomGuide(AnnealedGuide):
    """Eq. 9: q = 1 + sigma z with probability epsilon, z ~ N(0, 1); otherwise q = 1."""

    of_states: ClassVar[bool] = True
    is_noise: ClassVar[bool] = True
    name: Literal["random"] = "random"
    epsilon: tuple[float, float] = (0.1, 0.0)
    """Probability that a token's q is noisy, as the upper and lower end of its schedule."""
    sigma: tuple[float, float] = (0.15, 0.05)
    """Standard deviation that q has, as the upper and lower end of its schedule."""

    @model_validator(mode="after")
    def _ranges(self) -> RandomGuide:
        if not all(0 <= value <= 1 for value in self.epsilon):
            raise ValueError("epsilon is a probability: both ends must be in [0, 1]")
        if any(value < 0 for value in self.sigma):
            raise ValueError("sigma is a standard deviation: both ends are at least 0")
        return self

    def q(self, signals: Signals, step: int) -> Tensor:
        """Return Eq. 9 at `step` of the clock."""
        epsilon, sigma = self.annealed(step, self.epsilon), self.annealed(step, self.sigma)
        chosen_BT, uniform_BT = self.noise(signals, step)
        noisy_BT = 1 + sigma * to_normal(uniform_BT)
        return noisy_BT.where(chosen_BT < epsilon, noisy_BT.new_ones(noisy_BT.shape))
