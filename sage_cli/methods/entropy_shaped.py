"""More advantage where the policy hesitates: A + min(alpha H, |A| / kappa), token by token."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from pydantic import Field

from sage_cli.methods.method import Loss, PolicyGradient

if TYPE_CHECKING:
    from torch import Tensor

    from sage_cli.methods.formulas import Update


class EntropyShaped(PolicyGradient):
    """Entropy-shaped advantages (Cheng et al. 2025)."""

    algo: Literal["entropy-shaped"] = "entropy-shaped"
    loss: Loss = "dapo"
    epsilon_high: float = Field(0.28, gt=0)
    entropy_weight: float = Field(0.4, ge=0)
    """alpha: what a nat of a token's entropy adds to its advantage."""
    kappa: float = Field(2.0, gt=1)
    """At most |A| / kappa is added."""

    source = "Cheng et al. 2025 (arXiv 2506.14758): A + min(alpha H, |A| / kappa), token by token"
    shapes_tokens = True

    def shape(self, update: Update) -> Tensor:
        """Return A and the bonus."""
        return entropy_shaped(update, alpha=self.entropy_weight, kappa=self.kappa)


def entropy_shaped(update: Update, *, alpha: float, kappa: float) -> Tensor:
    """A + min(alpha H, |A| / kappa) (Cheng et al. 2025): more of it where the policy hesitates.

    The sign of A stays, for kappa above 1; where A is 0 nothing is added.
    """
    import torch

    bonus_BT = torch.minimum(alpha * update.entropy_BT, update.advantages_BT.abs() / kappa)
    return update.advantages_BT + bonus_BT
