"""RS-GRPO: the gradient of an exponential utility, which seeks risk."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from pydantic import Field

from sage_cli.methods.method import PolicyGradient

if TYPE_CHECKING:
    from torch import Tensor

    from sage_cli.methods.formulas import AdvantageInputs

_LARGE = 64.0
"""An exponent whose exponential is neither infinite nor 0 in single precision."""


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
    """Return (exp(b r) / mean exp(b r) - 1) / b within each group, b the `risk`."""
    exponents_PN = risk * rewards_PN
    highest_P1 = exponents_PN.amax(dim=1, keepdim=True)
    # a common factor cancels: large exponents are lowered, and usual ones stay as they are
    utility_PN = (exponents_PN - (highest_P1 - highest_P1.clamp(-_LARGE, _LARGE))).exp()
    return (utility_PN / utility_PN.mean(dim=1, keepdim=True) - 1) / risk
