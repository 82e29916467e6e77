"""W-REINFORCE: right and wrong completions weighed apart, without a baseline."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from pydantic import Field

from sage_cli.methods.method import Beside
from sage_cli.methods.policy_gradient import Loss, PolicyGradient

if TYPE_CHECKING:
    from torch import Tensor

    from sage_cli.methods.parts.inputs import AdvantageInputs


class WReinforce(PolicyGradient):
    """W-REINFORCE (Zhu et al. 2025)."""

    algo: Literal["w-reinforce"] = "w-reinforce"
    loss: Loss = "dapo"
    right_weight: float = Field(0.1, ge=0)
    """Advantage of a right completion; a wrong one has -1."""

    source = "Zhu et al. 2025 (arXiv 2506.01347): wrong completions weigh more than right ones"
    read_from = "code"
    differs = (
        "without their entropy bonus of .001; PPO's clip and mean over tokens as in their code"
    )
    kl_without_guide = "none"

    def advantages(self, inputs: AdvantageInputs) -> Tensor:
        """Return `right_weight` for right completions and -1 for others, a row each."""
        return signed_advantages(inputs.right_PN, self.right_weight, -1.0).flatten()

    def refusals(self, beside: Beside) -> list[str]:
        """Settings that read what these advantages don't, or drop what they learn from."""
        found = super().refusals(beside)
        return [*found, *self.reads_grades_alone(), *self.learns_from_equal_groups()]


def signed_advantages(right_PN: Tensor, right: float, wrong: float) -> Tensor:
    """`right` where a completion is right, else `wrong` (Zhu et al. 2025, section 3).

    Groups of equal grades teach, too: there is no baseline.
    """
    return right_PN * right + (1 - right_PN) * wrong
