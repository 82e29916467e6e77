"""RAPO's guide: the reference tilted towards uniform by the reward (Deng et al. 2025)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from pydantic import Field

from sage_cli.guides.guide import Guide, Signals

if TYPE_CHECKING:
    from torch import Tensor


class RapoGuide(Guide):
    """q pi_ref = pi_ref^phi / sum_v pi_ref(v)^phi: phi 1 is the reference, 0 is uniform.

    arXiv 2510.03865. phi depends on the completion's grade, so this guide knows what is correct.
    """

    name: Literal["rapo"] = "rapo"
    phi_right: float = Field(1.0, ge=0, le=1)
    """Exponent of the reference on correct completions; 1 leaves the anchor unchanged."""
    phi_wrong: float = Field(0.5, ge=0, le=1)
    """Exponent of the reference on wrong completions. The lower it is, the flatter is the
    anchor."""
    q_min: float = Field(1e-3, gt=0)
    """Lower bound of q. For a token of which the model is certain, q falls to 1 / sum_v
    pi_ref(v)^phi."""
    q_max: float = Field(100.0, gt=0)
    """Upper bound of q, at which the tail of q = pi_ref^(phi - 1) on rare tokens is cut."""
    needs = frozenset({"reference_logps_BT", "reference_tilted_logps_BT", "right_B"})

    @property
    def exponents(self) -> tuple[float, float]:
        """Return phi of wrong and of correct completions."""
        return self.phi_wrong, self.phi_right

    def q(self, signals: Signals, step: int) -> Tensor:  # noqa: ARG002
        """Return the tilted reference divided by the reference; exactly 1 where phi is 1."""
        import torch

        phi_wrong, phi_right = self.exponents
        flat_B = torch.where(signals.right_B, phi_right == 1, phi_wrong == 1)
        q_BT = (signals.reference_tilted_logps_BT - signals.reference_logps_BT).exp()
        # infinite where pi_ref is 0 to the precision of the type
        return q_BT.clamp(max=2 * self.q_max).masked_fill(flat_B[:, None], 1)
