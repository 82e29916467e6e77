"""The toy of Theorem 4.3: what a guide brings into the support, and when it does not."""

from __future__ import annotations

import numpy as np

from sage_cli.guides import BranchGuide
from sage_cli.theory import toy
from sage_cli.theory.estimators import ESTIMATORS, Estimator
from sage_cli.theory.solutions import tilted
from sage_cli.theory.statement import Found, distance, statement
from sage_cli.theory.support import support
from sage_cli.theory.tree import entropies

ITERATIONS = 10


@statement("a rare right answer enters", "33-37, Thm 4.3", "as printed")
def rare_answer_enters() -> Found:
    """With the default branch guide Eq. 4 holds the rare right answer above delta, where Eq. 2
    holds it below: the toy works, by a factor q of 1.18.
    """
    plain_B, guided_B, q_B = toy.optima()
    before, after = (support(policy_B, toy.RIGHT_B, toy.DELTA) for policy_B in (plain_B, guided_B))
    entered = after - before == {toy.RARE} and before == {toy.FREQUENT}
    found = toy.mass(toy.TREE.table(guided_B))
    expected = q_B[toy.RARE] / (plain_B @ q_B) * plain_B[toy.RARE]
    error = max(distance(found, expected), 0.0 if entered else np.inf)
    return error, {
        "reference": float(toy.REFERENCE_B[toy.RARE]),
        "Eq. 2": float(plain_B[toy.RARE]),
        "delta": toy.DELTA,
        "Eq. 4": float(guided_B[toy.RARE]),
        "q": float(q_B[toy.RARE]),
        "E[q]": float(plain_B @ q_B),
    }


@statement("the printed toy is impossible", "12, 33-37", "not as printed")
def shared_entropy() -> Found:
    """Appendix C gives two answers to one prompt different entropies at their first token, but both
    sample it from the same distribution; a guide of the state can tell them apart only later.
    """
    entropy_BT = entropies(toy.REFERENCE_ZV)[toy.TREE.states_BT]
    frequent_T, rare_T = entropy_BT[toy.FREQUENT], entropy_BT[toy.RARE]
    error = distance(frequent_T[0], rare_T[0])
    return error, {
        "H_1": float(rare_T[0]),
        "H_2 frequent": float(frequent_T[1]),
        "H_2 rare": float(rare_T[1]),
    }


@statement("branch lifts right and wrong alike", "4, 11", "as printed")
def right_and_wrong_alike() -> Found:
    """Completions that pass the same states are lifted by one factor, whether right or wrong."""
    plain_B, guided_B, _ = toy.optima()
    through_B = toy.TREE.tokens_BT[:, 0] == 1
    gain_B = (guided_B / plain_B)[through_B]
    return distance(gain_B, gain_B[0]), {"factor": float(gain_B[0])}


@statement("refreshing undoes it", "3, 4, Thm 4.3", "on a condition")
def refreshed_guide() -> Found:
    """Where q is made anew of the trained policy, the toy ends at Eq. 2 after all: with one right
    way on, the branch closes, its entropy falls below tau, and q returns to 1.
    """
    plain_B, policy_B, _ = toy.optima()
    for _ in range(ITERATIONS):
        log_q_BT = toy.TREE.log_q(BranchGuide(), toy.TREE.table(policy_B))
        policy_B = tilted(toy.RIGHT_B, np.exp(log_q_BT.sum(axis=1)) * toy.REFERENCE_B, toy.BETA)
    entropy_Z = entropies(toy.TREE.table(policy_B))
    error = distance(policy_B, plain_B)
    return error, {
        "entropy at the branch, reference": float(entropies(toy.REFERENCE_ZV)[2]),
        "trained": float(entropy_Z[2]),
    }


@statement("where each estimator stops", "2, 4, 27, 38", "not as printed")
def estimators_at_rest() -> Found:
    """Following the losses' expected gradients from the reference, only reward ends at Eq. 4; k3
    ends at Eq. 27 state by state with beta q in beta's place, k3-corrected at Eq. 2 state by state
    without q.
    """
    worst = max(
        distance(
            toy.TREE.masses(toy.trained(estimator, log_q_BT)),
            toy.TREE.masses(toy.at_rest(estimator, log_q_BT)),
        )
        for estimator in ESTIMATORS
        for log_q_BT in (toy.NO_GUIDE_BT, toy.LOG_Q_BT)
    )
    rare = {f"{name}, {guide}": value for (name, guide), value in rare_at_rest().items()}
    return worst, rare


@statement("the toy under each estimator", "38, Thm 4.3", "not as printed")
def branch_lowers_under_k3() -> Found:
    """Branch lifts the toy's rare right answer under reward alone; under k3-corrected it does
    nothing, and under k3, the authors' estimator, it lowers it: the stronger pull at the branch
    keeps the wrong ways open too.
    """
    rare = rare_at_rest()
    ratio = {name: rare[name, "branch"] / rare[name, "none"] for name in ESTIMATORS}
    clear = ratio["k3"] < 0.95 and ratio["reward"] > 1.05
    error = distance(ratio["k3-corrected"], 1.0) if clear else np.inf
    return error, {f"branch over none, {name}": value for name, value in ratio.items()}


def rare_at_rest() -> dict[tuple[Estimator, str], float]:
    """Return the rare answer's mass by estimator and guide (`none` or `branch`)."""
    return {
        (estimator, guide): toy.mass(toy.at_rest(estimator, log_q_BT))
        for estimator in ESTIMATORS
        for guide, log_q_BT in (("none", toy.NO_GUIDE_BT), ("branch", toy.LOG_Q_BT))
    }
