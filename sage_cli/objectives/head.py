"""The reverse KL to the anchor, exact over the likeliest tokens of each state (EMA-PG).

Zhang and Ba 2026, arXiv 2602.04417. As published the sampled part lacks the gradient of the head's
mass; here the sum has the gradient of the whole divergence.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

from sage_cli.objectives.divergences import log_ratio

SLOPE_ONE = math.log(2)
"""Where k3's slope is 1: exp(d) - d - 1 at d = ln 2."""


def head_kl(
    head_logps_BTH: Tensor,
    head_anchor_BTH: Tensor,
    in_head_BT: Tensor,
    log_ratio_BT: Tensor,
    importance_BT: Tensor,
) -> Tensor:
    """Return sum_{v in head} pi(v) (log pi(v) - log a(v)), and past the head its estimate, (B, T).

    The estimate is pi / pi_old times log pi - log a where the sampled token is not in the head,
    else 0; a = q pi_ref. With gradient through pi the sum's expectation over y ~ pi_old is the
    divergence of the state, and its gradient the divergence's, whatever the head is. On-policy
    `importance_BT` is 1 in value; its gradient is needed all the same.
    """
    head_BT = (head_logps_BTH.exp() * log_ratio(head_logps_BTH, head_anchor_BTH)).sum(dim=-1)
    return head_BT + torch.where(in_head_BT, 0.0, importance_BT * log_ratio_BT)


def as_k3(logps_BT: Tensor, divergence_BT: Tensor) -> Tensor:
    """Return the reference for which k3 has the gradient of `divergence_BT`.

    So a loss whose own term is k3 normalises that divergence as it does k3. k3's value is then
    1 - ln 2 for each token.
    """
    return logps_BT + SLOPE_ONE + (divergence_BT - divergence_BT.detach())
