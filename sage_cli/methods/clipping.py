"""How the ratio of a policy gradient is clipped: its range, its level, and what TRL is told."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Literal

Loss = Literal["grpo", "bnpo", "dapo", "dr_grpo", "cispo", "sapo", "luspo"]
CLIPPING = ("grpo", "bnpo", "dapo", "dr_grpo", "luspo")
"""The losses -min(rho A, clipped rho A)."""
ONE_UPDATE = "one update per generation, because pi / pi_old is then 1"
MORE_UPDATES = "use rl.iterations or rl.steps_per_generation above 1"


@dataclass(frozen=True)
class Clipping:
    """The clipping of the ratio pi / pi_old, from the settings of `rl` that have these names.

    A method that clips otherwise gives a subclass, and with it what is described, refused and told
    to TRL.
    """

    loss: Loss
    clip: bool
    epsilon_low: float
    epsilon_high: float
    delta: float | None
    level: Literal["token", "sequence"]

    @property
    def range(self) -> tuple[float, float] | None:
        """epsilon_low and epsilon_high; None where the ratio is not clipped."""
        return (self.epsilon_low, self.epsilon_high) if self.clip else None

    def describe(self) -> str:
        """Return the loss and the range in words, for plans."""
        ends = f"clip {self.epsilon_low:g}/{self.epsilon_high:g}" if self.clip else "no clipping"
        return f"{self.loss}, {ends}"

    def trl_arguments(self) -> dict[str, Any]:
        """Return the part of the arguments of TRL's GRPOTrainer."""
        return {
            "epsilon": self.epsilon_low if self.clip else 1.0,  # a ratio is never below 0
            "epsilon_high": self.epsilon_high if self.clip else math.inf,
            "delta": self.delta,
            "importance_sampling_level": self.level,
        }

    def problems(self) -> list[str]:
        """Return the conflicts: settings that contradict each other or do nothing."""
        clips, refusals = self.loss in CLIPPING, []
        losses = ", ".join(CLIPPING)
        if self.delta is not None and not clips:
            refusals.append(f"rl.delta is read by the losses {losses}, not by '{self.loss}'")
        if self.delta is not None and self.delta <= 1 + self.epsilon_high:
            refusals.append(
                f"rl.delta {self.delta} isn't above 1 + rl.epsilon_high {self.epsilon_high}, where "
                "the ratio is clipped already"
            )
        if not self.clip and (not clips or self.delta is not None):
            refusals.append(
                f"rl.clip is false, and only the losses {losses} without rl.delta can do without it"
            )
        if self.loss == "cispo" and self.epsilon_high < 1:
            refusals.append(
                "rl.loss 'cispo' reads rl.epsilon_high as an absolute cap on the ratio, and "
                f"{self.epsilon_high} would cut every token off (about 5 is usual)"
            )
        return refusals

    def warnings(self, steps_per_batch: int) -> list[str]:
        """Return a warning of a chosen range where there is nothing to clip."""
        usual = (self.epsilon_low, self.epsilon_high) == (0.2, 0.2)
        if steps_per_batch > 1 or not self.clip or usual:
            return []
        return [
            f"the clip range {self.epsilon_low:g} / {self.epsilon_high:g} has no effect with "
            f"{ONE_UPDATE} ({MORE_UPDATES})"
        ]
