"""NudgeRL's advantages, and which rollouts are sampled with which context."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

PLAIN = -1
"""The context of a rollout that is sampled without one."""
_EPSILON = 1e-5


def nudged_advantages(rewards_PN: Tensor, context_PN: Tensor, between: float) -> Tensor:
    """(r - m_c) + `between` (m_c - m), as z-scores of the group; r - m of a plain rollout.

    m is the group's mean reward, m_c that of its rollouts with the same context. The deviation
    divides by N and has 1e-5 beside it, as in the authors' code.
    """
    mean_P1 = rewards_PN.mean(dim=1, keepdim=True)
    raw_PN = rewards_PN - mean_P1
    for context in range(int(context_PN.max()) + 1):
        same_PN = context_PN == context
        count_P1 = same_PN.sum(dim=1, keepdim=True).clamp(min=1)
        own_P1 = (rewards_PN * same_PN).sum(dim=1, keepdim=True) / count_P1
        nudged_PN = (rewards_PN - own_P1) + between * (own_P1 - mean_P1)
        raw_PN = torch.where(same_PN, nudged_PN, raw_PN)
    centred_PN = raw_PN - raw_PN.mean(dim=1, keepdim=True)
    return centred_PN / (raw_PN.std(dim=1, keepdim=True, correction=0) + _EPSILON)


def contexts_of(contexts: int, rollouts: int, dropout: float, seed: tuple[int, ...]) -> list[int]:
    """Return the context of each of a group's rollouts, `PLAIN` where it is dropped.

    The same seed gives the same, in whatever process and after whatever resumption.
    """
    dropped_N = np.random.default_rng(seed).random(rollouts) < dropout
    return [
        PLAIN if dropped or not contexts else place * contexts // rollouts
        for place, dropped in enumerate(dropped_N)
    ]
