"""The toy of Theorem 4.3 (Appendix C): a frequent and a rare right answer of two tokens.

The paper gives the two answers different entropies at their first token. Both draw it in the same
state, the prompt, so that Eq. 12 gives them the same: here the branch stands at the rare answer's
second token. The default guide (tau = 1.2, rho = .3) reads the reference, and q stays fixed.
"""

from __future__ import annotations

import numpy as np

from sage_cli.guides import BranchGuide
from sage_cli.metrics.counts import FloatArray
from sage_cli.theory.ascent import ascend
from sage_cli.theory.estimators import Estimator, expected_gradient
from sage_cli.theory.solutions import covering, tilted
from sage_cli.theory.tree import Tree, log_softmax

TREE = Tree(vocabulary=6, steps=2)
BETA = 0.2
DELTA = 0.0065
"""Def. 4.1's threshold, between the rare answer's mass without the guide and with it."""
SURE = (0.90, 0.02, 0.02, 0.02, 0.02, 0.02)
REFERENCE_ZV = np.log([
    (0.95, 0.03, 0.005, 0.005, 0.005, 0.005),  # the prompt: token 0 is the frequent way, 1 the rare
    SURE,
    (1 / 6,) * 6,  # after token 1 everything is open: entropy log 6 = 1.792
    *(SURE,) * 4,
])  # fmt: skip
REFERENCE_B = TREE.masses(REFERENCE_ZV)
FREQUENT, RARE = 0, 6
"""The right completions: (0, 0) and (1, 0)."""
RIGHT_B = np.isin(np.arange(36), (FREQUENT, RARE)).astype(float)
LOG_Q_BT = TREE.log_q(BranchGuide(signal="reference"), REFERENCE_ZV)
NO_GUIDE_BT = np.zeros_like(LOG_Q_BT)


def at_rest(estimator: Estimator, log_q_BT: FloatArray, beta: float = BETA) -> FloatArray:
    """Return the policy log pi(v | s), (Z, V), at which training with a guide of the state stops.

    Under `reward` it is Eq. 4. Under the token-level estimators each state has an optimum of its
    own, Eq. 27 (k3) or Eq. 2 (k3-corrected), for the chance of being right after each token:
    no state sees what its tokens' anchors cost later.
    """
    if estimator == "reward":
        return TREE.table(tilted(RIGHT_B, np.exp(log_q_BT.sum(axis=1)) * REFERENCE_B, beta))
    solution = covering if estimator == "k3" else tilted
    anchor_ZV = np.exp(REFERENCE_ZV + TREE.mean(log_q_BT, REFERENCE_ZV))
    policy_ZV = np.empty_like(anchor_ZV)
    value_V = np.empty(TREE.vocabulary)
    for token in range(TREE.vocabulary):  # the states after the first token, then the prompt
        right_V = RIGHT_B[token * TREE.vocabulary : (token + 1) * TREE.vocabulary]
        policy_ZV[1 + token] = solution(right_V, anchor_ZV[1 + token], beta)
        value_V[token] = policy_ZV[1 + token] @ right_V
    policy_ZV[0] = solution(value_V, anchor_ZV[0], beta)
    logp_ZV: FloatArray = np.log(policy_ZV)
    return logp_ZV


def force(
    estimator: Estimator, log_q_BT: FloatArray, policy_ZV: FloatArray, beta: float = BETA
) -> FloatArray:
    """Return the expected gradient of reward - beta divergence by the logits, (Z, V)."""
    reward_BT = np.repeat(RIGHT_B[:, None], TREE.steps, axis=1)
    divergence_ZV = expected_gradient(estimator, log_q_BT, policy_ZV, REFERENCE_ZV, TREE)
    force_ZV: FloatArray = TREE.ascent(reward_BT, policy_ZV) - beta * divergence_ZV
    return force_ZV


def trained(estimator: Estimator, log_q_BT: FloatArray) -> FloatArray:
    """Return the policy at which following the expected gradients ends, (Z, V)."""

    def gradient(logits: FloatArray) -> FloatArray:
        policy_ZV = log_softmax(logits.reshape(REFERENCE_ZV.shape))
        return force(estimator, log_q_BT, policy_ZV).ravel()

    return log_softmax(ascend(gradient, REFERENCE_ZV.ravel()).reshape(REFERENCE_ZV.shape))


def mass(policy_ZV: FloatArray, completion: int = RARE) -> float:
    """Return pi of one completion."""
    return float(TREE.masses(policy_ZV)[completion])


def optima() -> tuple[FloatArray, FloatArray, FloatArray]:
    """Return Eq. 2, Eq. 4 with the branch guide, and q of every completion."""
    q_B = np.exp(LOG_Q_BT.sum(axis=1))
    plain_B = tilted(RIGHT_B, REFERENCE_B, BETA)
    return plain_B, tilted(RIGHT_B, q_B * REFERENCE_B, BETA), q_B
