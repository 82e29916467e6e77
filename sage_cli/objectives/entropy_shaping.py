"""Advantages that look at what a token's update does to the policy's entropy, token by token."""

from __future__ import annotations

from math import log

import torch
from torch import Tensor

from sage_cli.objectives.advantage import Update


def entropy_shaped(update: Update, *, alpha: float, kappa: float) -> Tensor:
    """A + min(alpha H, |A| / kappa) (Cheng et al. 2025): more of it where the policy hesitates.

    The sign of A stays, for kappa above 1; where A is 0 nothing is added.
    """
    bonus_BT = torch.minimum(alpha * update.entropy_BT, update.advantages_BT.abs() / kappa)
    return update.advantages_BT + bonus_BT


def steer(update: Update, *, form: str, omega: str, minimum: float, maximum: float) -> Tensor:
    """A times a weight that is the lower the more a token's update would move the entropy.

    `linear`: from `maximum` where Omega is least in the micro-batch to `minimum` where it is
    greatest, 1 where all are equal. `exp`: minimum ^ (Omega / max(greatest Omega, .02)). Under
    `omega=paper` tokens past the clip range keep their weight of 1. (Hao et al. 2025)
    """
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

    `code`: |A pi (1 - pi) (log pi + H_old) / pi_old|, with the entropy of the policy that drew the
    tokens. `paper`: |rho A pi (1 - pi) (log pi + H)|, as others read it; one factor pi more.
    """
    logps_BT, ratio_BT = update.logps_BT.detach(), update.log_ratio_BT.detach().exp()
    pi_BT = logps_BT.exp()
    if omega == "code":
        rate_BT = ratio_BT * (1 - pi_BT) * (logps_BT + update.old_entropy_BT)
    else:
        rate_BT = ratio_BT * pi_BT * (1 - pi_BT) * (logps_BT + update.entropy_BT)
    return (update.advantages_BT * rate_BT).abs()
