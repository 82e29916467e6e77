"""MARA: right completions that the reference finds unlikely are rewarded for it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from pydantic import Field

from sage_cli.methods.method import Beside, PolicyGradient

if TYPE_CHECKING:
    from torch import Tensor

    from sage_cli.methods.formulas import AdvantageInputs


class Mara(PolicyGradient):
    """GRPO with mode-anchored rewards (GX-Chen et al. 2025)."""

    algo: Literal["mara"] = "mara"
    likelihood: Literal["completion", "token"] = "completion"
    """log pi_ref of a completion: the sum over its tokens, which favours long ones, or the mean."""
    most_added: float | None = Field(1.0, gt=0)
    """The most that a reward is raised; null: as much as the formula says."""

    source = (
        "GX-Chen et al. 2025 (arXiv 2510.20817): rewards that make right answers equally likely"
    )
    read_from = "paper"
    differs = "the anchor completion is found within a group; rewards rise by most_added at most"

    def advantages(self, inputs: AdvantageInputs) -> Tensor:
        """Return the group's advantages of `mode_anchored_rewards`, a row each."""
        from sage_cli.methods.formulas import completion_logps, group_advantages

        by_token = self.likelihood == "token"
        logps_PN = completion_logps(inputs, inputs.reference_logps_BT, mean=by_token)
        added_PN = mode_anchored_rewards(inputs.right_PN, logps_PN, inputs.beta) - inputs.right_PN
        if self.most_added is not None:
            added_PN = added_PN.clamp(max=self.most_added)
        return group_advantages(inputs.rewards_PN + added_PN).flatten()

    def refusals(self, beside: Beside) -> list[str]:
        """Return an anchor without weight, which nothing is measured by."""
        refusals = [*super().refusals(beside), *self.learns_from_equal_groups()]
        if beside.anchor.kl != "reverse" or beside.anchor.beta == 0:
            refusals.append(
                "rl.algo 'mara' raises rewards by anchor.beta times log pi_ref, and without a "
                "reverse KL of some weight it is grpo (use --kl reverse and a beta above 0)"
            )
        return refusals


def mode_anchored_rewards(right_PN: Tensor, logps_PN: Tensor, beta: float) -> Tensor:
    """1 + beta (log P(z) - log P(y)) for right y, z the likeliest right one; 0 for wrong ones.

    P is the reference without a guide. With beta KL(pi || P) beside it, the optimum over whole
    distributions gives every right completion the same probability.
    """
    import torch

    right = right_PN.bool()
    highest_P1 = logps_PN.masked_fill(~right, -torch.inf).amax(dim=1, keepdim=True)
    return torch.where(right, 1 + beta * (highest_P1 - logps_PN), 0.0).to(right_PN)
