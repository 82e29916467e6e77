"""Unlikeliness reward: of right completions the likely ones are worth less."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from pydantic import Field

from sage_cli.methods.method import Beside, PolicyGradient

if TYPE_CHECKING:
    from torch import Tensor

    from sage_cli.methods.formulas import AdvantageInputs


class Unlikeliness(PolicyGradient):
    """GRPO with the unlikeliness reward (He et al. 2025)."""

    algo: Literal["unlikeliness"] = "unlikeliness"
    iterations: int = Field(2, ge=1)
    rank_penalty: float = Field(0.25, ge=0, lt=1)
    """The likeliest completion of a group, if right, loses almost this share of its reward."""

    source = "He et al. 2025 (arXiv 2506.02355): likely right completions are worth less"
    read_from = "code"
    differs = "on GRPO's loss; beta is anchor.beta, theirs is .1"

    def advantages(self, inputs: AdvantageInputs) -> Tensor:
        """Return the group's advantages of `unlikely_rewards`, a row each."""
        from sage_cli.methods.formulas import completion_logps, group_advantages

        logps_PN = completion_logps(inputs, inputs.logps_BT)
        rewards_PN = unlikely_rewards(inputs.rewards_PN, logps_PN, self.rank_penalty)
        return group_advantages(rewards_PN).flatten()

    def refusals(self, beside: Beside) -> list[str]:
        """Return the conflicts: dynamic sampling, which would replace groups that teach here."""
        return [*super().refusals(beside), *self.learns_from_equal_groups()]


def unlikely_rewards(rewards_PN: Tensor, logps_PN: Tensor, penalty: float) -> Tensor:
    """r (1 - penalty rank / N), the rank from 0 by ascending log-probability among all N."""
    rank_PN = logps_PN.argsort(dim=1, stable=True).argsort(dim=1)
    return rewards_PN * (1 - penalty * rank_PN.to(rewards_PN) / rewards_PN.shape[1])
