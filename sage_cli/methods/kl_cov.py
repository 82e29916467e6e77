"""KL-Cov: the tokens by whose updates entropy falls most are held back."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from pydantic import Field

from sage_cli.methods.method import CLIPPING, Beside, Loss, PolicyGradient

if TYPE_CHECKING:
    from torch import Tensor

    from sage_cli.methods.formulas import Update


class KlCov(PolicyGradient):
    """KL-Cov (Cui et al. 2025)."""

    algo: Literal["kl-cov"] = "kl-cov"
    loss: Loss = "dapo"
    clip: bool = False
    dynamic_sampling: bool = True
    steps_per_generation: int = Field(8, ge=1)
    share: float = Field(2e-3, gt=0, le=1)
    """Share of a micro-batch's tokens, those of greatest covariance, that is held back."""
    kl_coefficient: float = Field(1.0, ge=0)
    """Weight of |log rho| in the loss of those tokens."""

    source = "Cui et al. 2025 (arXiv 2505.22617): holds back the tokens by which entropy falls most"
    read_from = "code"
    differs = "one token at least of each micro-batch, as theirs"
    kl_without_guide = "none"
    shapes_tokens = True

    def shape(self, update: Update) -> Tensor:
        """Return A, and for the tokens held back their term of the loss, too."""
        return kl_cov(update, share=self.share, coefficient=self.kl_coefficient)

    def refusals(self, beside: Beside) -> list[str]:
        """Return the conflicts: updates whose ratio is 1, and losses that its term does not fit."""
        refusals = super().refusals(beside)
        if self.steps_per_batch == 1:
            refusals.append(
                "rl.algo 'kl-cov' holds tokens back by |log pi / pi_old|, and with one update per "
                "generation that is 0 with gradient 0 (use rl.iterations or "
                "rl.steps_per_generation above 1)"
            )
        if self.clip or self.loss not in CLIPPING:
            refusals.append(
                "rl.algo 'kl-cov' adds to a loss that isn't clipped, and the loss is "
                f"'{self.loss}' with rl.clip={str(self.clip).lower()} (use rl.clip=false with one "
                f"of {', '.join(CLIPPING)})"
            )
        return refusals


def kl_cov(update: Update, *, share: float, coefficient: float) -> Tensor:
    """Return A - coefficient |log rho| / rho for the max(1, `share`) tokens of greatest covariance.

    The loss -rho A of those then has the term coefficient |log rho|, with its gradient. Only
    covariances above 0 count: where all advantages are 0, all are equal and the choice would be
    anybody's.
    """
    import torch

    from sage_cli.methods.formulas import covariance_count, covariances

    mask_BT = update.mask_BT.bool()
    covariance_BT = covariances(update).masked_fill(~mask_BT, -torch.inf)
    count = min(covariance_count(update, share), int(mask_BT.sum()))
    chosen_BT = torch.zeros_like(mask_BT)
    chosen_BT.view(-1)[covariance_BT.flatten().topk(count).indices] = True
    chosen_BT &= covariance_BT > 0
    log_ratio_BT = update.log_ratio_BT
    held_BT = coefficient * log_ratio_BT.abs() / log_ratio_BT.exp()
    return update.advantages_BT - torch.where(chosen_BT, held_BT, 0.0)
