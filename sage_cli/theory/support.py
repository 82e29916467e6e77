"""Empirical support (Def. 4.1): which of it RLVR keeps, and Theorem 4.3."""

from __future__ import annotations

from math import comb

import numpy as np

from sage_cli.metrics.counts import FloatArray
from sage_cli.theory import toy
from sage_cli.theory.solutions import tilted
from sage_cli.theory.statement import Found, distance, statement, violation

ROLLOUTS = 16
KINDS_3 = np.array([0.3, 0.005, 0.695])
"""The reference's masses of a frequent right answer, a rare right one, and wrong ones together."""
DELTA = 0.01


def support(policy_B: FloatArray, right_B: FloatArray, delta: float) -> set[int]:
    """Return supp_delta: the right completions with more mass than delta."""
    return set(np.flatnonzero((right_B > 0) & (policy_B > delta)).tolist())


@statement("reweighting by q", "22-25", "as printed")
def identity() -> float:
    """pi*_q is pi* times q / E_pi*[q]; so Theorem 4.3's condition is its conclusion in other words
    (each holds exactly where the other does), and says nothing about which guide meets it.
    """
    plain_B, guided_B, q_B = toy.optima()
    factor_B = q_B / (plain_B @ q_B)
    agree = all(
        (factor_B[y] > delta / plain_B[y]) == (guided_B[y] > delta)
        for y in range(len(q_B))
        for delta in np.geomspace(1e-6, 1, 61)
    )
    return max(distance(guided_B, factor_B * plain_B), 0.0 if agree else np.inf)


@statement("the optimum expands support", "2, Thm 4.2", "on a condition")
def optimum_expands() -> Found:
    """At Eq. 2 a right completion gains the factor 1 / (p + (1 - p) exp(-1 / beta)), and enters the
    support if the reference gave it delta / factor to delta: preservation is no property of the
    objective (here at delta = .0055).

    A counterexample to Theorem 4.2.
    """
    plain_B, _, _ = toy.optima()
    right_mass = float(toy.REFERENCE_B @ toy.RIGHT_B)
    factor = 1 / (right_mass + (1 - right_mass) * np.exp(-1 / toy.BETA))
    delta = 0.0055
    entered = support(plain_B, toy.RIGHT_B, delta) - support(toy.REFERENCE_B, toy.RIGHT_B, delta)
    error = max(
        distance(plain_B[toy.RARE], factor * toy.REFERENCE_B[toy.RARE]),
        0.0 if entered == {toy.RARE} else np.inf,
    )
    return error, {
        "factor": factor,
        "reference": float(toy.REFERENCE_B[toy.RARE]),
        "Eq. 2": float(plain_B[toy.RARE]),
    }


@statement("what is not sampled stays out", "Def. 4.1, Thm 4.2", "on a condition")
def unsampled_stays_out() -> Found:
    """If rewards are known for sampled completions only, a rare right answer enters exactly if it
    is among the M samples, with probability 1 - (1 - pi_ref)^M, at most M delta; so support is
    kept, most likely, if delta is far below 1 / M, and not if delta is above it.

    Every outcome of the sampling is enumerated.
    """
    entering = 0.0
    for frequent in range(ROLLOUTS + 1):
        for rare in range(ROLLOUTS + 1 - frequent):
            reward_3 = np.array([frequent > 0, rare > 0, False]).astype(float)
            wrong = ROLLOUTS - frequent - rare
            ways = comb(ROLLOUTS, frequent) * comb(ROLLOUTS - frequent, rare)
            chance = ways * float(np.prod(KINDS_3 ** (frequent, rare, wrong)))
            entering += chance * bool(tilted(reward_3, KINDS_3, toy.BETA)[1] > DELTA)
    rare_mass = float(KINDS_3[1])
    error = max(
        distance(entering, detection(rare_mass, ROLLOUTS)), violation(entering, ROLLOUTS * DELTA)
    )
    return error, {"chance to enter, M = 16": entering, "M = 1024": detection(rare_mass, 1024)}


def detection(mass: float, rollouts: float) -> float:
    """Return the probability that a completion of this mass is among so many rollouts."""
    return float(-np.expm1(rollouts * np.log1p(-mass)))
