"""A method: GRPO whose group advantages count less in groups that are nearly solved."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from pydantic import Field

from sage_cli.methods.method import PolicyGradient

if TYPE_CHECKING:
    from torch import Tensor

    from sage_cli.methods.formulas import AdvantageInputs


class Unsolved(PolicyGradient):
    """Advantages times (1 - p)^gamma, with p the share of correct completions of the prompt."""

    algo: Literal["unsolved"] = "unsolved"
    gamma: float = Field(1.0, ge=0)
    """How fast the weight falls with the share of correct completions; 0 is GRPO."""

    source = "an example: the focal loss's idea (Lin et al. 2017) on GRPO's groups"

    def advantages(self, inputs: AdvantageInputs) -> Tensor:
        """Return the group's advantages (B,), weighted by group."""
        advantages_PN = super().advantages(inputs).reshape(inputs.rewards_PN.shape)
        wrong_P1 = 1 - inputs.right_PN.mean(dim=1, keepdim=True)
        return (advantages_PN * wrong_P1**self.gamma).flatten()
