"""The objectives, and gradient ascent on a softmax policy's W parameters, without closed forms."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from sage_cli.metrics.counts import FloatArray
from sage_cli.theory.solutions import normalised

LONGEST = 1.0
"""Largest change of a parameter in one step."""
ENOUGH = 1e-14
"""A gradient below it is rounding error."""


@dataclass(frozen=True)
class ReverseKl:
    """E[r] - beta D(pi || anchor) + entropy_bonus H(pi): Eqs. 1, 6 and 19."""

    reward_B: FloatArray
    anchor_B: FloatArray
    beta: float
    entropy_bonus: float = 0.0

    def value(self, policy_B: FloatArray) -> float:
        """Return the objective."""
        log_B = np.log(policy_B)
        divergence_B = log_B - np.log(self.anchor_B)
        return float(
            policy_B @ (self.reward_B - self.beta * divergence_B - self.entropy_bonus * log_B)
        )

    def slope(self, policy_B: FloatArray) -> FloatArray:
        """Return its derivative by each completion's probability, as in Eq. 16."""
        log_B = np.log(policy_B)
        divergence_B = log_B - np.log(self.anchor_B)
        return self.reward_B - self.beta * (divergence_B + 1) - self.entropy_bonus * (log_B + 1)


@dataclass(frozen=True)
class ForwardKl:
    """E[r] - beta KL(reference || pi), whose stationary policy is Eq. 27."""

    reward_B: FloatArray
    reference_B: FloatArray
    beta: float

    def value(self, policy_B: FloatArray) -> float:
        """Return the objective."""
        divergence = self.reference_B @ (np.log(self.reference_B) - np.log(policy_B))
        return float(policy_B @ self.reward_B - self.beta * divergence)

    def slope(self, policy_B: FloatArray) -> FloatArray:
        """Return its derivative by each completion's probability."""
        return self.reward_B + self.beta * self.reference_B / policy_B


def softmax(logit_B: FloatArray) -> FloatArray:
    """Return the distribution of these logits."""
    return normalised(np.exp(logit_B - logit_B.max()))


def best_policy(
    objective: ReverseKl | ForwardKl,
    feature_BW: FloatArray | None = None,
    start_W: FloatArray | None = None,
) -> FloatArray:
    """Return where ascent from `start_W` (default: zeros) ends, on softmax(features parameters).

    Without features every completion has a logit of its own: any policy can be reached.
    """
    features_BW = np.eye(len(objective.reward_B)) if feature_BW is None else feature_BW

    def gradient(parameters_W: FloatArray) -> FloatArray:
        policy_B = softmax(features_BW @ parameters_W)
        slope_B = objective.slope(policy_B)
        return features_BW.T @ (policy_B * (slope_B - policy_B @ slope_B))

    start = np.zeros(features_BW.shape[1]) if start_W is None else start_W
    return softmax(features_BW @ ascend(gradient, start))


def ascend(
    gradient: Callable[[FloatArray], FloatArray], start_W: FloatArray, steps: int = 20_000
) -> FloatArray:
    """Follow a gradient until it vanishes, with steps of Barzilai and Borwein (1988).

    Their step is the inverse of the curvature that the last step met, so that flat directions
    (rare completions) don't take a million steps.
    """
    at_W, slope_W = start_W, gradient(start_W)
    size = 1.0
    for _ in range(steps):
        if np.abs(slope_W).max() < ENOUGH:
            break
        move_W = size * slope_W
        move_W = move_W * min(1.0, LONGEST / float(np.abs(move_W).max()))
        at_W = at_W + move_W
        new_W = gradient(at_W)
        bend = float(move_W @ (slope_W - new_W))
        size = float(move_W @ move_W) / abs(bend) if bend else 1.0
        slope_W = new_W
    return at_W
