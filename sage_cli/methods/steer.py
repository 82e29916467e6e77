"""STEER: less weight on tokens whose update would move the entropy most."""

from __future__ import annotations

from math import log
from typing import TYPE_CHECKING, Literal

from pydantic import Field

from sage_cli.methods.method import Loss, PolicyGradient

if TYPE_CHECKING:
    from torch import Tensor

    from sage_cli.methods.formulas import Update


class Steer(PolicyGradient):
    """STEER (Hao et al. 2025)."""

    algo: Literal["steer"] = "steer"
    loss: Loss = "dapo"
    epsilon_high: float = Field(0.28, gt=0)
    delta: float | None = Field(10.0, gt=1)
    steps_per_generation: int = Field(16, ge=1)
    form: Literal["linear", "exp"] = "linear"
    """Weights by Omega: linear between the extremes, or `minimum_weight` to a power."""
    omega: Literal["code", "paper"] = "code"
    """Return the entropy change of a token's update, by the authors' code or their paper."""
    minimum_weight: float = Field(0.8, gt=0, le=1)
    """Weight where Omega is greatest."""
    maximum_weight: float = Field(1.2, ge=1)
    """Weight where Omega is least; under `exp` that is 1."""

    source = "Hao et al. 2025 (arXiv 2510.10150): less weight where the entropy would move most"
    read_from = "code"
    differs = "extremes are a micro-batch's, as theirs are"
    kl_without_guide = "none"
    shapes_tokens = True
    reads_old_entropy = True

    def shape(self, update: Update) -> Tensor:
        """Return A times the weights."""
        low, high = self.minimum_weight, self.maximum_weight
        return steer(update, form=self.form, omega=self.omega, minimum=low, maximum=high)


def steer(update: Update, *, form: str, omega: str, minimum: float, maximum: float) -> Tensor:
    """Return A times a weight that is the lower the more a token's update would move the entropy.

    `linear`: from `maximum` where Omega is least in the micro-batch to `minimum` where it is
    greatest, 1 where all are equal. `exp`: minimum ^ (Omega / max(greatest Omega, .02)). Under
    `omega=paper` tokens past the clip range keep their weight of 1. (Hao et al. 2025)
    """
    import torch

    omega_BT = steer_omega(update, omega)
    of_tokens = omega_BT[update.mask_BT.bool()]
    if not len(of_tokens):
        return update.advantages_BT
    least, greatest = of_tokens.min(), of_tokens.max()
    if form == "exp":
        weight_BT = (log(minimum) * omega_BT / greatest.clamp(min=0.02)).exp()
    elif greatest == least:
        weight_BT = torch.ones_like(omega_BT)
    else:
        weight_BT = maximum - (maximum - minimum) * (omega_BT - least) / (greatest - least)
    if omega == "paper":
        weight_BT = torch.where(update.clipped_BT, 1.0, weight_BT)
    return update.advantages_BT * weight_BT * update.mask_BT


def steer_omega(update: Update, omega: str) -> Tensor:
    """How much a token's update moves the entropy, as the authors' code or their paper has it.

    `code`: |A pi (1 - pi) (log pi + H_old) / pi_old|, with the entropy of the sampling
    policy. `paper`: |rho A pi (1 - pi) (log pi + H)|, as others read it; one factor pi more.
    """
    logps_BT, ratio_BT = update.logps_BT.detach(), update.log_ratio_BT.detach().exp()
    pi_BT = logps_BT.exp()
    if omega == "code":
        rate_BT = ratio_BT * (1 - pi_BT) * (logps_BT + update.old_entropy_BT)
    else:
        rate_BT = ratio_BT * pi_BT * (1 - pi_BT) * (logps_BT + update.entropy_BT)
    return (update.advantages_BT * rate_BT).abs()
