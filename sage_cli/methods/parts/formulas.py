"""Formulas that several methods share: advantages within groups, covariances of tokens."""

from __future__ import annotations

import torch
from torch import Tensor

from sage_cli.methods.parts.inputs import AdvantageInputs, Update

_EPSILON = 1e-4


def group_advantages(rewards_PN: Tensor) -> Tensor:
    """(r - mean) / (std + 1e-4) within each group, std with n - 1 (Shao et al. 2024, GRPO)."""
    centred_PN = centred_advantages(rewards_PN)
    return centred_PN / (rewards_PN.std(dim=1, keepdim=True) + _EPSILON)


def centred_advantages(rewards_PN: Tensor) -> Tensor:
    """r - mean within each group (Liu et al. 2025, Dr. GRPO)."""
    return rewards_PN - rewards_PN.mean(dim=1, keepdim=True)


def completion_logps(inputs: AdvantageInputs, logps_BT: Tensor, *, mean: bool = False) -> Tensor:
    """(P, N): the sum of each completion's log-probabilities, or with `mean` their mean."""
    mask_BT = inputs.mask_BT
    logps_B = (logps_BT * mask_BT).sum(dim=1)
    if mean:
        logps_B = logps_B / mask_BT.sum(dim=1).clamp(min=1)
    return logps_B.reshape(inputs.rewards_PN.shape)


def beta_advantages(rewards_PN: Tensor) -> Tensor:
    """(r - p) / Beta(p; alpha, beta) for rewards in [0, 1] (Xiao et al. 2025, BNPO).

    p is a group's mean reward, m and v the mean and population variance of p over the batch;
    with s = m (1 - m) / v - 1 the density has alpha = max(1, 1 + s m / 3) and
    beta = max(1, 1 + s (1 - m) / 3). Where v = 0 (one group, or all p equal) the group's own
    normalisation is taken; a group of equal grades has advantage 0.
    """
    p_P1 = rewards_PN.mean(dim=1, keepdim=True)
    mean, variance = p_P1.mean(), p_P1.var(correction=0)
    if variance <= torch.finfo(rewards_PN.dtype).eps ** 2:
        return group_advantages(rewards_PN)
    s = mean * (1 - mean) / variance - 1
    alpha, beta = (1 + s * mean / 3).clamp(min=1), (1 + s * (1 - mean) / 3).clamp(min=1)
    mixed_P1 = (p_P1 > 0) & (p_P1 < 1)
    inside_P1 = torch.where(mixed_P1, p_P1, torch.full_like(p_P1, 0.5))
    density_P1 = _beta_log_density(inside_P1, alpha, beta).exp()
    return torch.where(mixed_P1, (rewards_PN - p_P1) / density_P1, torch.zeros_like(rewards_PN))


def covariances(update: Update) -> Tensor:
    """(A - mean A) (log pi - mean log pi), means over the micro-batch's tokens; 0 where masked."""
    mask_BT, logps_BT = update.mask_BT.bool(), update.logps_BT.detach()
    tokens = mask_BT.sum().clamp(min=1)
    apart = [
        values_BT - (values_BT * mask_BT).sum() / tokens
        for values_BT in (update.advantages_BT, logps_BT)
    ]
    return apart[0] * apart[1] * mask_BT


def covariance_count(update: Update, share: float) -> int:
    """Return how many tokens a share of the micro-batch's is, one at least."""
    return max(1, int(share * int(update.mask_BT.sum())))


def _beta_log_density(p_P1: Tensor, alpha: Tensor, beta: Tensor) -> Tensor:
    log_norm = torch.lgamma(alpha) + torch.lgamma(beta) - torch.lgamma(alpha + beta)
    return (alpha - 1) * p_P1.log() + (beta - 1) * (1 - p_P1).log() - log_norm
