"""DARS: how many more rollouts a hard prompt gets, and what its pool teaches (Yang et al. 2025)."""

from __future__ import annotations

import math
from typing import Literal

import torch
from torch import Tensor


def extra_rollouts(right: int, first: int, allocation: Literal["et", "hw"], most: int) -> int:
    """Return the second-stage rollouts of a prompt with `right` of `first` rollouts right.

    With accuracy a = right / first (0.5 / first where none is right), a group's advantages weigh
    W = 2 a (1 - a) each, and first / 2 in all at a = 1/2. `et` brings every hard prompt up to that
    weight, `hw` up to 2 (1 - a) times it; prompts with a >= 1/2 get none.
    """
    accuracy = (right or 0.5) / first
    if accuracy >= 0.5:
        return 0
    weight, peak = 2 * accuracy * (1 - accuracy), first / 2
    wanted = peak if allocation == "et" else 2 * (1 - accuracy) * peak
    return min(math.ceil((wanted - first * weight) / weight), most - first)


def pooled_advantages(
    reward_B: Tensor, right_B: Tensor, prompt_B: Tensor, real_B: Tensor
) -> tuple[Tensor, Tensor]:
    """Rewards less the mean of their prompt's pool (B,), and whether a row teaches (B,).

    Pools may differ in size; rows that aren't `real_B` belong to none. A pool of one grade
    teaches nothing, nor do rows that aren't real.
    """
    prompts = int(prompt_B.max()) + 1
    here_B = real_B.to(reward_B)

    def summed(values_B: Tensor) -> Tensor:
        return torch.zeros(prompts).to(reward_B).index_add(0, prompt_B, values_B * here_B)

    size_P = summed(torch.ones_like(reward_B)).clamp(min=1)
    share_P = summed(right_B.to(reward_B)) / size_P
    mixed_P = (share_P > 0) & (share_P < 1)
    centred_B = reward_B - (summed(reward_B) / size_P)[prompt_B]
    return centred_B, mixed_P[prompt_B] & real_B
