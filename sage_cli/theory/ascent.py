"""The objectives, and gradient ascent on a softmax policy's parameters: no closed form is used."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from sage_cli.metrics.counts import FloatArray
from sage_cli.theory.solutions import normalised

LONGEST = 1.0
"""No parameter moves by more in one step."""
ENOUGH = 1e-14
"""A gradient below it is rounding."""


@dataclass(frozen=True)
class ReverseKl:
    """E[r] - beta D(pi || anchor) + entropy_bonus H(pi): Eqs. 1, 6 and 19."""

    reward_B: FloatArray
    anchor_B: FloatArray
    beta: float
    entropy_bonus: float = 0.0

    def value(self, policy_B: FloatArray) -> float:
        """The objective itself."""
        log_B = np.log(policy_B)
        divergence_B = log_B - np.log(self.anchor_B)
        return float(
            policy_B @ (self.reward_B - self.beta * divergence_B - self.entropy_bonus * log_B)
        )

    def slope(self, policy_B: FloatArray) -> FloatArray:
        """Its derivative by each completion's probability, as in Eq. 16."""
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
        """The objective itself."""
        divergence = self.reference_B @ (np.log(self.reference_B) - np.log(policy_B))
        return float(policy_B @ self.reward_B - self.beta * divergence)

    def slope(self, policy_B: FloatArray) -> FloatArray:
        """Its derivative by each completion's probability."""
        return self.reward_B + self.beta * self.reference_B / policy_B


def softmax(logit_B: FloatArray) -> FloatArray:
    """The distribution of these logits."""
    return normalised(np.exp(logit_B - logit_B.max()))


def best_policy(
    objective: ReverseKl | ForwardKl,
    feature_BD: FloatArray | None = None,
    start_D: FloatArray | None = None,
) -> FloatArray:
    """Where ascent from `start_D` (default: zeros) ends, on policies softmax(features parameters).

    Without features every completion has a logit of its own: any policy can be reached.
    """
    features_BD = np.eye(len(objective.reward_B)) if feature_BD is None else feature_BD

    def gradient(parameters_D: FloatArray) -> FloatArray:
        policy_B = softmax(features_BD @ parameters_D)
        slope_B = objective.slope(policy_B)
        return features_BD.T @ (policy_B * (slope_B - policy_B @ slope_B))

    start = np.zeros(features_BD.shape[1]) if start_D is None else start_D
    return softmax(features_BD @ ascend(gradient, start))


def ascend(
    gradient: Callable[[FloatArray], FloatArray], start_D: FloatArray, steps: int = 20_000
) -> FloatArray:
    """Follow a gradient until it vanishes, with steps of Barzilai and Borwein (1988).

    Their step is the inverse of the curvature that the last step met, so that flat directions
    (rare completions) don't take a million steps.
    """
    at_D, slope_D = start_D, gradient(start_D)
    size = 1.0
    for _ in range(steps):
        if np.abs(slope_D).max() < ENOUGH:
            break
        move_D = size * slope_D
        move_D = move_D * min(1.0, LONGEST / float(np.abs(move_D).max()))
        at_D = at_D + move_D
        new_D = gradient(at_D)
        bend = float(move_D @ (slope_D - new_D))
        size = float(move_D @ move_D) / abs(bend) if bend else 1.0
        slope_D = new_D
    return at_D
