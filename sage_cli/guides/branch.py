"""Branch guide: more anchor where the policy hesitates (Eqs. 11 and 12)."""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor

from sage_cli.guides.guide import Guide, Signal
from sage_cli.guides.signals import Signals


@dataclass(frozen=True)
class BranchGuide(Guide):
    """q_t = 1 + rho max(0, H_t - tau): a compressor turned upside down; tau in nats."""

    tau: float = 1.2
    rho: float = 0.3
    q_min: float = 0.6
    q_max: float = 1.4
    signal: Signal = "policy"

    def q(self, signals: Signals, step: int) -> Tensor:  # noqa: ARG002
        """Eq. 11; a function of the state alone, the same at every step."""
        return 1 + self.rho * (signals.entropy_BT - self.tau).clamp(min=0)
