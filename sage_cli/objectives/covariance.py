"""The few tokens by whose updates entropy falls most, taken out or held back (Cui et al. 2025)."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from sage_cli.objectives.advantage import Update


def covariances(update: Update) -> Tensor:
    """(A - mean A) (log pi - mean log pi), means over the micro-batch's tokens; 0 where masked."""
    mask_BT, logps_BT = update.mask_BT.bool(), update.logps_BT.detach()
    tokens = mask_BT.sum().clamp(min=1)
    apart = [
        values_BT - (values_BT * mask_BT).sum() / tokens
        for values_BT in (update.advantages_BT, logps_BT)
    ]
    return apart[0] * apart[1] * mask_BT


def clip_cov(update: Update, *, share: float, low: float, high: float) -> Tensor:
    """A, and 0 for some of the tokens whose covariance lies between `low` and `high`.

    max(1, `share` of the micro-batch's tokens) are drawn, of those that aren't clipped already.
    """
    covariance_BT = covariances(update)
    between_BT = (covariance_BT > low) & (covariance_BT < high) & ~update.clipped_BT
    candidates = between_BT.flatten().nonzero().flatten().tolist()
    count = min(_count(update, share), len(candidates))
    drawn = np.random.default_rng(update.seed).choice(candidates, count, replace=False)
    kept_BT = torch.ones_like(covariance_BT)
    kept_BT.view(-1)[torch.as_tensor(drawn, dtype=torch.long, device=kept_BT.device)] = 0
    return update.advantages_BT * kept_BT


def kl_cov(update: Update, *, share: float, coefficient: float) -> Tensor:
    """A - coefficient |log rho| / rho for the max(1, `share`) tokens of greatest covariance.

    The loss -rho A of those then has the term coefficient |log rho|, with its gradient. Only
    covariances above 0 count: where all advantages are 0, all are equal and the choice would be
    anybody's.
    """
    mask_BT = update.mask_BT.bool()
    covariance_BT = covariances(update).masked_fill(~mask_BT, -torch.inf)
    count = min(_count(update, share), int(mask_BT.sum()))
    chosen_BT = torch.zeros_like(mask_BT)
    chosen_BT.view(-1)[covariance_BT.flatten().topk(count).indices] = True
    chosen_BT &= covariance_BT > 0
    log_ratio_BT = update.log_ratio_BT
    held_BT = coefficient * log_ratio_BT.abs() / log_ratio_BT.exp()
    return update.advantages_BT - torch.where(chosen_BT, held_BT, 0.0)


def _count(update: Update, share: float) -> int:
    return max(1, int(share * int(update.mask_BT.sum())))
