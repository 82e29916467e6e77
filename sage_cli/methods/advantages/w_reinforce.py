"""W-REINFORCE: right and wrong completions weighed apart."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from sage_cli.methods.advantages.signed import SignedAdvantages


class WReinforce(SignedAdvantages):
    """W-REINFORCE (Zhu et al. 2025)."""

    algo: Literal["w-reinforce"] = "w-reinforce"
    right_weight: float = Field(0.1, ge=0)
    """Advantage of a right completion; a wrong one has -1."""

    source = "Zhu et al. 2025 (arXiv 2506.01347): wrong completions weigh more than right ones"
    differs = "without their entropy bonus of .001; PPO's clip and a mean over tokens as theirs"

    @property
    def right_and_wrong(self) -> tuple[float, float]:
        """Return `right_weight` and -1."""
        return self.right_weight, -1.0
