"""Branch guide: more anchor where the policy is uncertain (Eqs. 11 and 12)."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar, Literal

from pydantic import Field

from sage_cli.guides.guide import Guide, Signal, Signals

if TYPE_CHECKING:
    from torch import Tensor


class BranchGuide(Guide):
    """Eq. 11: q = 1 + rho max(0, H - tau), entropy H and threshold tau in nats."""

    of_states: ClassVar[bool] = True
    name: Literal["branch"] = "branch"
    tau: float = Field(1.2, ge=0)
    """Threshold τ: the entropy in nats above which q rises."""
    rho: float = Field(0.3, ge=0)
    """Slope ρ: the amount by which q rises per nat above tau."""
    signal: Signal = "policy"
    """Model whose entropy the guide reads."""

    def q(self, signals: Signals, step: int) -> Tensor:  # noqa: ARG002
        """Return Eq. 11, a function of the state alone: the same at every step."""
        return 1 + self.rho * (signals.entropy_BT - self.tau).clamp(min=0)
