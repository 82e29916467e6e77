"""RS-GRPO: the gradient of an exponential utility, which seeks risk."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from pydantic import Field

from sage_cli.methods.policy_gradient import PolicyGradient

if TYPE_CHECKING:
    from torch import Tensor

    from sage_cli.methods.parts.inputs import AdvantageInputs


class RsGrpo(PolicyGradient):
    """Risk-sensitive GRPO (Jiang et al. 2025)."""

    algo: Literal["rs-grpo"] = "rs-grpo"
    risk: float = Field(2.0, gt=0)
    """How much risk is sought (their beta); towards 0 the advantages are r - mean."""

    source = "Jiang et al. 2025 (arXiv 2509.24261): exponential utility of rewards, seeking risk"
    read_from = "code"
    differs = "on GRPO's loss"

    def advantages(self, inputs: AdvantageInputs) -> Tensor:
        """Return `risk_advantages` of the rewards, a row each."""
        return risk_advantages(inputs.rewards_PN, self.risk).flatten()


def risk_advantages(rewards_PN: Tensor, risk: float) -> Tensor:
    """(exp(b r) / mean exp(b r) - 1) / b within each group, b the `risk`."""
    utility_PN = (risk * rewards_PN).exp()
    return (utility_PN / utility_PN.mean(dim=1, keepdim=True) - 1) / risk
