"""RLPR's reward: how probable the gold is where the answer stands (Yu et al. 2025, 2506.18254)."""

from __future__ import annotations

from collections import Counter

import torch
from torch import Tensor

GOLD_SHARE, FORMAT_SHARE, REPEATED = 0.9, 0.1, -1.0
WINDOW_WORDS, WINDOW_TIMES = 10, 10
MEMORY, FIRST_FILTERED_STEP = 0.99, 11


def mean_probability(logps_BT: Tensor, mask_BT: Tensor) -> Tensor:
    """The mean of the gold tokens' probabilities (B,): not their product, which one token rules."""
    return (logps_BT.exp() * mask_BT).sum(dim=1) / mask_BT.sum(dim=1)


def probability_reward(chance: float, at_start: float, *, formed: bool, repeats: bool) -> float:
    """0.9 clip(b - a, 0, 1) + 0.1 format, or -1 for a completion that repeats itself.

    b is the gold's mean probability in the answer's place, a the same right after the prompt,
    under the policy as it starts.
    """
    if repeats:
        return REPEATED
    gained = min(max(chance - at_start, 0.0), 1.0)
    return GOLD_SHARE * gained + FORMAT_SHARE * formed


def repeats_itself(text: str) -> bool:
    """Whether some ten words in a row occur ten times."""
    words = text.split()
    windows = Counter(
        tuple(words[i : i + WINDOW_WORDS]) for i in range(len(words) - WINDOW_WORDS + 1)
    )
    return max(windows.values(), default=0) >= WINDOW_TIMES


def running_spread(before: float | None, spread_P: Tensor) -> float:
    """The groups' mean deviation of rewards, averaged over the training with memory 0.99."""
    now = float(spread_P.double().mean())
    return now if before is None else MEMORY * before + (1 - MEMORY) * now


def telling_groups(spread_P: Tensor, running: float, factor: float, step: int) -> Tensor:
    """True (P,) for groups that teach: all up to step 10, then those not far below the average."""
    if step < FIRST_FILTERED_STEP:
        return torch.ones_like(spread_P, dtype=torch.bool)
    return spread_P >= factor * running
