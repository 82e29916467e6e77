"""PACS: the grade as a label, the policy's log-ratio as a score (Li et al. 2025, 2509.02522)."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn.functional import binary_cross_entropy_with_logits


def pacs(score_PN: Tensor, right_PN: Tensor, *, weighted: bool) -> tuple[Tensor, Tensor]:
    """Losses (P, N) of completions, and their negative gradients a with respect to the scores.

    A completion's score R is beta sum_t (log pi - log pi_old); psi is R less the mean of its
    group's others. The loss is w BCE(sigmoid(psi), r). A score is in the psi of the whole group, so
    that the gradient of the losses' sum is -a with a = h - mean of the others' h and
    h = w (r - sigmoid(psi)).
    """
    weight_PN = label_weights(right_PN) if weighted else torch.ones_like(score_PN)
    psi_PN = score_PN - others_mean(score_PN)
    loss_PN = weight_PN * binary_cross_entropy_with_logits(psi_PN, right_PN, reduction="none")
    h_PN = weight_PN * (right_PN - psi_PN.sigmoid())
    return loss_PN, h_PN - others_mean(h_PN)


def label_weights(right_PN: Tensor) -> Tensor:
    """N / (2 n) where n of a group's N completions have the same grade; 1 where all have it."""
    size = right_PN.shape[1]
    right_P1 = right_PN.sum(dim=1, keepdim=True)
    same_PN = torch.where(right_PN == 1, right_P1, size - right_P1)
    mixed_P1 = (right_P1 > 0) & (right_P1 < size)
    return torch.where(mixed_P1, size / (2 * same_PN), torch.ones_like(right_PN))


def others_mean(values_PN: Tensor) -> Tensor:
    """For each completion the mean over the others of its group."""
    return (values_PN.sum(dim=1, keepdim=True) - values_PN) / (values_PN.shape[1] - 1)
