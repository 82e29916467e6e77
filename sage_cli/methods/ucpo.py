"""UCPO: the credit of a group's right completions is moved towards the unlikely ones."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from pydantic import Field

from sage_cli.methods.method import Beside, PolicyGradient

if TYPE_CHECKING:
    from torch import Tensor

    from sage_cli.methods.formulas import AdvantageInputs


class Ucpo(PolicyGradient):
    """UCPO (Lochab et al. 2026)."""

    algo: Literal["ucpo"] = "ucpo"
    moved_share: float = Field(0.2, ge=0, le=1)
    """Share of the right completions' credit that goes by unlikeliness (their tau)."""

    source = "Lochab et al. 2026 (arXiv 2605.00365): right completions share credit by rarity"
    read_from = "code"
    differs = "on GRPO's loss, whose deviation has 1e-4 beside it"

    def advantages(self, inputs: AdvantageInputs) -> Tensor:
        """Return the group's advantages times `rarity_factors`, a row each."""
        from sage_cli.methods.formulas import completion_logps

        logps_PN = completion_logps(inputs, inputs.logps_BT, mean=True)
        factor_PN = rarity_factors(inputs.right_PN, logps_PN, self.moved_share)
        return super().advantages(inputs) * factor_PN.flatten().to(inputs.rewards_PN)

    def refusals(self, beside: Beside) -> list[str]:
        """Return the conflicts: punishments may make right completions' advantages negative."""
        return [*super().refusals(beside), *self.reads_grades_alone()]


def rarity_factors(right_PN: Tensor, logps_PN: Tensor, share: float) -> Tensor:
    """n ((1 - share) / n + share w) for the n right completions of a group, 1 for wrong ones.

    w is proportional to 1 / p over them, p their mean token's probability: the factors of a group's
    right completions have mean 1.
    """
    import torch

    right_PN = right_PN.bool()
    weight_PN = torch.softmax((-logps_PN).masked_fill(~right_PN, -torch.inf), dim=1)
    count_P1 = right_PN.sum(dim=1, keepdim=True)
    # a group without a right completion has NaN weights, which nothing reads
    return torch.where(right_PN, (1 - share) + share * count_P1 * weight_PN, 1.0)
