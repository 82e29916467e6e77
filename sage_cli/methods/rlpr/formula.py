"""RLPR's reward: how probable the gold is where the answer stands (Yu et al. 2025, 2506.18254)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from statistics import fmean

import torch
from torch import Tensor

GOLD_SHARE, FORMAT_SHARE, REPEATED = 0.9, 0.1, -1.0
WINDOW_WORDS, WINDOW_TIMES = 10, 10
MEMORY, FIRST_AVERAGED_STEP, FIRST_FILTERED_STEP = 0.99, 6, 11


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
    """Return True if some ten words in a row occur ten times."""
    words = text.split()
    windows = Counter(
        tuple(words[i : i + WINDOW_WORDS]) for i in range(len(words) - WINDOW_WORDS + 1)
    )
    return max(windows.values(), default=0) >= WINDOW_TIMES


def running_spread(deviations: Sequence[float]) -> float | None:
    """The average deviation that the next step's groups are held against; None before step 11.

    `deviations` are the steps' means over groups, from step 1. The average begins as the plain mean
    of steps 6 to 10; every later step enters it with a weight of 0.01.
    """
    if len(deviations) < FIRST_FILTERED_STEP - 1:
        return None
    average = fmean(deviations[FIRST_AVERAGED_STEP - 1 : FIRST_FILTERED_STEP - 1])
    for now in deviations[FIRST_FILTERED_STEP - 1 :]:
        average = MEMORY * average + (1 - MEMORY) * now
    return average


def telling_groups(spread_P: Tensor, average: float | None, factor: float) -> Tensor:
    """True (P,) for groups that teach: all without an average, then those not far below it."""
    if average is None:
        return torch.ones_like(spread_P, dtype=torch.bool)
    return spread_P >= factor * average
