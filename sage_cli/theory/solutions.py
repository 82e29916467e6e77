"""The stationary policies in closed form: reward r_B and anchor of all B completions of a prompt.

An anchor may be unnormalised, as q pi_ref is.
"""

from __future__ import annotations

import numpy as np

from sage_cli.metrics.counts import FloatArray


def normalised(weight_B: FloatArray) -> FloatArray:
    """Return the distribution in proportion to positive weights."""
    normalised_B: FloatArray = weight_B / weight_B.sum()
    return normalised_B


def tilted(reward_B: FloatArray, anchor_B: FloatArray, beta: float) -> FloatArray:
    """Return anchor exp(r / beta), normalised: Eq. 2, and Eq. 4 where the anchor is q pi_ref."""
    return normalised(anchor_B * np.exp((reward_B - reward_B.max()) / beta))


def mode_anchored(right_B: FloatArray, reference_B: FloatArray, beta: float) -> FloatArray:
    """Return MARA's reward: the rarer a right answer under the reference, the more it is paid."""
    best = reference_B[right_B > 0].max()
    reward_B: FloatArray = right_B * (1 + beta * np.log(best / reference_B))
    return reward_B


def tempered(
    reward_B: FloatArray, anchor_B: FloatArray, beta: float, entropy_bonus: float
) -> FloatArray:
    """Return Eq. 21: (anchor exp(r / beta))^(beta / (beta + entropy_bonus)), normalised."""
    return normalised(tilted(reward_B, anchor_B, beta) ** (beta / (beta + entropy_bonus)))


def covering(reward_B: FloatArray, anchor_B: FloatArray, beta: float) -> FloatArray:
    """Return Eq. 27: beta anchor / (lambda - r), the forward KL's stationary policy."""
    return beta * anchor_B / (covering_level(reward_B, anchor_B, beta) - reward_B)


def covering_level(reward_B: FloatArray, anchor_B: FloatArray, beta: float) -> float:
    """Return Eq. 27's lambda for any rewards, by bisection: masses are positive and sum to one."""
    top, weight = float(reward_B.max()), beta * float(anchor_B.sum())
    low, high = 0.0, weight  # of lambda - top: at `high` even all mass at the top is at most one
    while low < (middle := (low + high) / 2) < high:
        mass = (beta * anchor_B / (middle + top - reward_B)).sum()
        low, high = (middle, high) if mass > 1 else (low, middle)
    return top + high


def two_valued_level(right_mass: float, beta: float) -> float:
    """Return Eq. 27's lambda for r of 0 or 1: it depends on pi_ref's right mass alone.

    beta p / (lambda - 1) + beta (1 - p) / lambda = 1 is a quadratic equation; the other root is
    below 1, where right completions would have negative mass.
    """
    half = (1 + beta) / 2
    return half + float(np.sqrt(half**2 - beta * (1 - right_mass)))
