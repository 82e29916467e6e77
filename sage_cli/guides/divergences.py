"""The divergence from the shaped anchor q pi_ref: its estimators on sampled tokens, where and when.

Which gradient each estimator has in expectation differs, and with it the method: see the
docstrings. All statements hold on-policy, y_t ~ pi, without gradient through q.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Literal

import torch
from torch import Tensor

if TYPE_CHECKING:
    from sage_cli.settings.anchor import Rows

AnchorSchedule = Literal["constant", "cosine"]
SLOPE_ONE = math.log(2)
"""Where k3's slope is 1: exp(d) - d - 1 at d = ln 2."""


def log_ratio(logps_BT: Tensor, reference_logps_BT: Tensor, log_q_BT: Tensor | float = 0) -> Tensor:
    """log pi - log q - log pi_ref, whose mean over samples is Eq. 5 (without a guide Eq. 1's)."""
    # q pi_ref is not normalised over the vocabulary, so the mean of this ratio is a pseudo-KL,
    # which may be negative
    return logps_BT - (reference_logps_BT + log_q_BT)


def k3(logps_BT: Tensor, reference_logps_BT: Tensor, log_q_BT: Tensor | float = 0) -> Tensor:
    """exp(d) - d - 1 with d = log q + log pi_ref - log pi (Eq. 38, Schulman 2020); at least 0.

    As a loss term its expected gradient is -sum_v q pi_ref(v) grad log pi(v): the *forward* KL's,
    weighted by q. A guide that depends on the state alone scales the pull there.
    """
    d_BT = -log_ratio(logps_BT, reference_logps_BT, log_q_BT)
    return d_BT.exp() - d_BT - 1


def reward_to_go(log_ratio_BT: Tensor, mask_BT: Tensor, beta: float) -> Tensor:
    """-beta times the sum of `log_ratio_BT` over each token and all later ones of its completion.

    Added to the advantages (without gradient) this is the exact gradient of Eq. 6: the pseudo-KL
    is a quantity of the sequence, and a token is credited with what it leads to.
    """
    # detached: the log-ratio acts as a reward. Its own gradient has expectation 0 on-policy (E[grad
    # log pi] = 0), and would add variance alone.
    values_BT = log_ratio_BT.detach() * mask_BT
    # flip, sum, flip: a cumulative sum from the right. Padding is masked before it, so that it adds
    # nothing, and after it, where the sum would still be that of nothing.
    return -beta * values_BT.flip(1).cumsum(1).flip(1) * mask_BT


def forward_cross_entropy(logps_BT: Tensor, mask_BT: Tensor) -> Tensor:
    """-log pi on completions sampled from the frozen reference: mean over tokens, then over rows.

    Up to the reference's own entropy this is the forward KL(pi_ref || pi), a method of its own
    (on the policy's samples a correct token-level forward KL has k3's gradient). The mean over
    tokens puts it on the scale of the per-token terms that beta weighs otherwise.
    """
    tokens_B = mask_BT.sum(dim=1).clamp(min=1)
    return -((logps_BT * mask_BT).sum(dim=1) / tokens_B).mean()


def head_kl(
    head_logps_BTH: Tensor,
    head_anchor_BTH: Tensor,
    in_head_BT: Tensor,
    log_ratio_BT: Tensor,
    importance_BT: Tensor,
) -> Tensor:
    """Return sum_{v in head} pi(v) (log pi(v) - log a(v)), and past the head its estimate, (B, T).

    The reverse KL, exact over the likeliest tokens of each state (Zhang and Ba 2026, EMA-PG, arXiv
    2602.04417). As published the sampled part lacks the gradient of the head's mass; here the sum
    has the gradient of the whole divergence.

    The estimate is pi / pi_old times log pi - log a where the sampled token is not in the head,
    else 0; a = q pi_ref. With gradient through pi the sum's expectation over y ~ pi_old is the
    divergence of the state, and its gradient the divergence's, whatever the head is. On-policy
    `importance_BT` is 1 in value; its gradient is needed all the same.
    """
    head_BT = (head_logps_BTH.exp() * log_ratio(head_logps_BTH, head_anchor_BTH)).sum(dim=-1)
    # the sampled token's term stands for the whole tail: its expectation over y ~ pi_old is the sum
    # over tokens outside the head of pi (log pi - log a), because the ratio pi / pi_old turns the
    # weights of pi_old into those of pi
    return head_BT + torch.where(in_head_BT, 0.0, importance_BT * log_ratio_BT)


def as_k3(logps_BT: Tensor, divergence_BT: Tensor) -> Tensor:
    """Return the reference for which k3 has the gradient of `divergence_BT`.

    So a loss whose own term is k3 normalises that divergence as it does k3. k3's value is then
    1 - ln 2 for each token.
    """
    # k3 has slope exp(d) - 1 in d, which is 1 at d = ln 2. Here d = ln 2 in value and has the
    # divergence's gradient: the policy's own logps cancel in d = reference - logps.
    return logps_BT + SLOPE_ONE + (divergence_BT - divergence_BT.detach())


def anchored_rows(rows: Rows, right_B: Tensor, group_right_B: Tensor) -> Tensor:
    """Return True (B,) for each completion that the KL term acts on.

    `right_B` are grades, `group_right_B` the share of correct completions in each row's group.
    Where it is 0 or 1 the advantages are 0, and under `all` the anchor alone moves the policy
    there: `informative` leaves such groups out. `wrong` is the baseline of APO (arXiv 2602.05717).
    """
    if rows == "wrong":
        return ~right_B
    if rows == "right":
        return right_B
    if rows == "informative":
        return ~equal_rows(group_right_B)
    return torch.ones_like(right_B)


def uncertain_tokens(entropy_BT: Tensor, mask_BT: Tensor, share: float) -> Tensor:
    """Return True (B, T) where the entropy is above its 1 - share quantile within the completion.

    Without ties these are share (T - 1) of T tokens, rounded up. Tokens at the quantile are certain
    (Wang et al. 2025, Archer, arXiv 2507.15778), so a completion of equal entropies has none.
    """
    # infinity puts padding behind all tokens, so that places 0 to T - 1 of the sorted row are the
    # completion's
    sorted_BT = entropy_BT.masked_fill(~mask_BT.bool(), torch.inf).sort(dim=1).values
    # not torch.nanquantile, which takes no more than 2^24 values
    place_B1 = (1 - share) * (mask_BT.sum(dim=1, keepdim=True, dtype=torch.float64) - 1)
    # products as .8 x 15 are whole numbers in exact arithmetic alone
    below_B1 = (place_B1 + 1e-9).floor().clamp(min=0).long()
    # the largest value at or below the quantile decides: no token lies between it and an
    # interpolated quantile, so comparing with either gives the same tokens
    return (entropy_BT > sorted_BT.gather(1, below_B1)) & mask_BT.bool()


def equal_rows(group_right_B: Tensor) -> Tensor:
    """Return True (B,) for the completions of groups that are all correct or all wrong."""
    return (group_right_B == 0) | (group_right_B == 1)


def share_of_beta(schedule: AnchorSchedule, step: int, steps: int) -> float:
    """Return the share of beta_0 in optimiser step `step` (from 0) of `steps`.

    `cosine`: (1 + cos(pi t / T)) / 2, from 1 down to 0 after the last step (Chen et al. 2025b).
    """
    if schedule == "constant":
        return 1.0
    return (1 + math.cos(math.pi * step / steps)) / 2
