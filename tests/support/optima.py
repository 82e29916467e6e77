"""Where objectives end that are small enough to enumerate: closed forms, and gradient ascent.

B counts completions, W a policy's parameters.
"""

import numpy as np


def ascend(gradient, start_W, steps=20_000):
    """Follow a gradient until it vanishes, with steps of Barzilai and Borwein (1988).

    Their step is the inverse of the curvature that the last step met, so that flat directions
    (rare completions) don't take a million steps.
    """
    at_W, slope_W, size = start_W, gradient(start_W), 1.0
    for _ in range(steps):
        if np.abs(slope_W).max() < 1e-14:
            break
        move_W = size * slope_W
        move_W = move_W * min(1.0, 1.0 / float(np.abs(move_W).max()))
        at_W = at_W + move_W
        new_W = gradient(at_W)
        bend = float(move_W @ (slope_W - new_W))
        size = float(move_W @ move_W) / abs(bend) if bend else 1.0
        slope_W = new_W
    return at_W


def normalised(weight_B):
    """Return the distribution with these weights."""
    return weight_B / weight_B.sum()


def tilted(reward_B, anchor_B, beta):
    """Return anchor exp(r / beta), normalised: Eq. 2, and Eq. 4 where the anchor is q pi_ref."""
    return normalised(anchor_B * np.exp((reward_B - reward_B.max()) / beta))


def covering(reward_B, anchor_B, beta):
    """Return Eq. 27: beta anchor / (lambda - r), the forward KL's stationary policy."""
    return beta * anchor_B / (covering_level(reward_B, anchor_B, beta) - reward_B)


def covering_level(reward_B, anchor_B, beta):
    """Return Eq. 27's lambda for any rewards, by bisection: masses are positive and sum to one."""
    top = float(reward_B.max())
    low, high = 0.0, beta * float(anchor_B.sum())
    while low < (middle := (low + high) / 2) < high:
        mass = (beta * anchor_B / (middle + top - reward_B)).sum()
        low, high = (middle, high) if mass > 1 else (low, middle)
    return top + high
