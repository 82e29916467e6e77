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
REFERENCE_SV = np.log([
    (0.95, 0.03, 0.005, 0.005, 0.005, 0.005),  # the prompt: token 0 is the frequent way, 1 the rare
    SURE,
    (1 / 6,) * 6,  # after token 1 everything is open: entropy log 6 = 1.792
    *(SURE,) * 4,
])  # fmt: skip
REFERENCE_B = TREE.masses(REFERENCE_SV)
FREQUENT, RARE = 0, 6
"""The right completions: (0, 0) and (1, 0)."""
RIGHT_B = np.isin(np.arange(36), (FREQUENT, RARE)).astype(float)
LOG_Q_BT = TREE.log_q(BranchGuide(signal="reference"), REFERENCE_SV)
NO_GUIDE_BT = np.zeros_like(LOG_Q_BT)


def at_rest(estimator: Estimator, log_q_BT: FloatArray, beta: float = BETA) -> FloatArray:
    """The policy log pi(v | s) at which training with a guide of the state alone stops, (S, V).

    Under `reward` it is Eq. 4. Under the token-level estimators each state has an optimum of its
    own, Eq. 27 (k3) or Eq. 2 (k3-corrected), for the chance of being right after each token:
    no state sees what its tokens' anchors cost later.
    """
    if estimator == "reward":
        return TREE.table(tilted(RIGHT_B, np.exp(log_q_BT.sum(axis=1)) * REFERENCE_B, beta))
    solution = covering if estimator == "k3" else tilted
    anchor_SV = np.exp(REFERENCE_SV + TREE.mean(log_q_BT, REFERENCE_SV))
    policy_SV = np.empty_like(anchor_SV)
    value_V = np.empty(TREE.vocabulary)
    for token in range(TREE.vocabulary):  # the states after the first token, then the prompt
        right_V = RIGHT_B[token * TREE.vocabulary : (token + 1) * TREE.vocabulary]
        policy_SV[1 + token] = solution(right_V, anchor_SV[1 + token], beta)
        value_V[token] = policy_SV[1 + token] @ right_V
    policy_SV[0] = solution(value_V, anchor_SV[0], beta)
    logp_SV: FloatArray = np.log(policy_SV)
    return logp_SV


def force(
    estimator: Estimator, log_q_BT: FloatArray, policy_SV: FloatArray, beta: float = BETA
) -> FloatArray:
    """The expected gradient of reward less beta times the divergence by the logits, (S, V)."""
    reward_BT = np.repeat(RIGHT_B[:, None], TREE.steps, axis=1)
    divergence_SV = expected_gradient(estimator, log_q_BT, policy_SV, REFERENCE_SV, TREE)
    force_SV: FloatArray = TREE.ascent(reward_BT, policy_SV) - beta * divergence_SV
    return force_SV


def trained(estimator: Estimator, log_q_BT: FloatArray) -> FloatArray:
    """The policy at which the expected gradients themselves end, from the reference on, (S, V)."""

    def gradient(logits: FloatArray) -> FloatArray:
        policy_SV = log_softmax(logits.reshape(REFERENCE_SV.shape))
        return force(estimator, log_q_BT, policy_SV).ravel()

    return log_softmax(ascend(gradient, REFERENCE_SV.ravel()).reshape(REFERENCE_SV.shape))


def mass(policy_SV: FloatArray, completion: int = RARE) -> float:
    """pi of one completion."""
    return float(TREE.masses(policy_SV)[completion])


def optima() -> tuple[FloatArray, FloatArray, FloatArray]:
    """Eq. 2, Eq. 4 with the branch guide, and q of every completion."""
    q_B = np.exp(LOG_Q_BT.sum(axis=1))
    plain_B = tilted(RIGHT_B, REFERENCE_B, BETA)
    return plain_B, tilted(RIGHT_B, q_B * REFERENCE_B, BETA), q_B
