"""Clip-Cov: a few of the tokens by whose updates entropy falls are left out."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from pydantic import Field

from sage_cli.methods.method import Loss, PolicyGradient

if TYPE_CHECKING:
    from torch import Tensor

    from sage_cli.methods.formulas import Update


class ClipCov(PolicyGradient):
    """Clip-Cov (Cui et al. 2025)."""

    algo: Literal["clip-cov"] = "clip-cov"
    loss: Loss = "dapo"
    epsilon_low: float = Field(1.0, gt=0, le=1)
    epsilon_high: float = Field(1.0, gt=0)
    dynamic_sampling: bool = True
    steps_per_generation: int = Field(8, ge=1)
    share: float = Field(2e-4, gt=0, le=1)
    """Share of a micro-batch's tokens that is left out."""
    covariance_low: float = 1.0
    """Tokens are left out whose covariance is above this."""
    covariance_high: float = 5.0
    """Tokens are left out whose covariance is below this."""

    source = "Cui et al. 2025 (arXiv 2505.22617): leaves out a few tokens by which entropy falls"
    read_from = "code"
    differs = "one token at least of each micro-batch, as theirs"
    kl_without_guide = "none"
    shapes_tokens = True

    def shape(self, update: Update) -> Tensor:
        """Return A, and 0 for the tokens that are left out."""
        low, high = self.covariance_low, self.covariance_high
        return clip_cov(update, share=self.share, low=low, high=high)


def clip_cov(update: Update, *, share: float, low: float, high: float) -> Tensor:
    """A, and 0 for some of the tokens whose covariance lies between `low` and `high`.

    max(1, `share` of the micro-batch's tokens) are drawn, of those that aren't clipped already.
    """
    import numpy as np
    import torch

    from sage_cli.methods.formulas import covariance_count, covariances

    covariance_BT = covariances(update)
    between_BT = (covariance_BT > low) & (covariance_BT < high) & ~update.clipped_BT
    candidates = between_BT.flatten().nonzero().flatten().tolist()
    count = min(covariance_count(update, share), len(candidates))
    drawn = np.random.default_rng(update.seed).choice(candidates, count, replace=False)
    kept_BT = torch.ones_like(covariance_BT)
    kept_BT.view(-1)[torch.as_tensor(drawn, dtype=torch.long, device=kept_BT.device)] = 0
    return update.advantages_BT * kept_BT
