"""The toy of Theorem 4.3: what a guide brings into the support, and when it does not."""

from __future__ import annotations

import numpy as np

from sage_cli.guides import BranchGuide
from sage_cli.theory import toy
from sage_cli.theory.estimators import ESTIMATORS, Estimator
from sage_cli.theory.solutions import tilted
from sage_cli.theory.statement import Statement, distance
from sage_cli.theory.support import support
from sage_cli.theory.tree import entropies

ITERATIONS = 10


def rare_answer_enters() -> Statement:
    """Theorem 4.3's toy, Eqs. 33 to 37, with the default branch guide."""
    plain_B, guided_B, q_B = toy.optima()
    before, after = (support(policy_B, toy.RIGHT_B, toy.DELTA) for policy_B in (plain_B, guided_B))
    entered = after - before == {toy.RARE} and before == {toy.FREQUENT}
    found = toy.mass(toy.TREE.table(guided_B))
    expected = q_B[toy.RARE] / (plain_B @ q_B) * plain_B[toy.RARE]
    return Statement(
        "a rare right answer enters", "33-37, Thm 4.3",
        "with the default branch guide Eq. 4 holds the rare right answer above delta, where Eq. 2 "
        "holds it below: the toy works, by a factor q of 1.18",
        max(distance(found, expected), 0.0 if entered else np.inf), "as printed",
        {"reference": float(toy.REFERENCE_B[toy.RARE]), "Eq. 2": float(plain_B[toy.RARE]),
         "delta": toy.DELTA, "Eq. 4": float(guided_B[toy.RARE]), "q": float(q_B[toy.RARE]),
         "E[q]": float(plain_B @ q_B)},
    )  # fmt: skip


def shared_entropy() -> Statement:
    """What the printed toy assumes of the first token."""
    entropy_BT = entropies(toy.REFERENCE_SV)[toy.TREE.states_BT]
    frequent_T, rare_T = entropy_BT[toy.FREQUENT], entropy_BT[toy.RARE]
    return Statement(
        "the printed toy can't be", "12, 33-37",
        "Appendix C gives two answers to one prompt different entropies at their first token, "
        "but both draw it from the same distribution; a guide of the state can tell them apart "
        "only later",
        distance(frequent_T[0], rare_T[0]), "not as printed",
        {"H_1": float(rare_T[0]), "H_2 frequent": float(frequent_T[1]),
         "H_2 rare": float(rare_T[1])},
    )  # fmt: skip


def right_and_wrong_alike() -> Statement:
    """Branch knows states, not verdicts."""
    plain_B, guided_B, _ = toy.optima()
    through_B = toy.TREE.tokens_BT[:, 0] == 1
    gain_B = (guided_B / plain_B)[through_B]
    return Statement(
        "branch lifts right and wrong alike", "4, 11",
        "completions that pass the same states are lifted by one factor, whether right or wrong",
        distance(gain_B, gain_B[0]), "as printed", {"factor": float(gain_B[0])},
    )  # fmt: skip


def refreshed_guide() -> Statement:
    """Eq. 4 again and again, q made anew of each policy, as training does between iterations."""
    plain_B, policy_B, _ = toy.optima()
    for _ in range(ITERATIONS):
        log_q_BT = toy.TREE.log_q(BranchGuide(), toy.TREE.table(policy_B))
        policy_B = tilted(toy.RIGHT_B, np.exp(log_q_BT.sum(axis=1)) * toy.REFERENCE_B, toy.BETA)
    entropy_S = entropies(toy.TREE.table(policy_B))
    return Statement(
        "refreshing undoes it", "3, 4, Thm 4.3",
        "where q is made anew of the trained policy, the toy ends at Eq. 2 after all: with one "
        "right way on, the branch closes, its entropy falls below tau, and q returns to 1",
        distance(policy_B, plain_B), "on a condition",
        {"entropy at the branch, reference": float(entropies(toy.REFERENCE_SV)[2]),
         "trained": float(entropy_S[2])},
    )  # fmt: skip


def estimators_at_rest() -> Statement:
    """Where training stops under each estimator."""
    worst = max(
        distance(
            toy.TREE.masses(toy.trained(estimator, log_q_BT)),
            toy.TREE.masses(toy.at_rest(estimator, log_q_BT)),
        )
        for estimator in ESTIMATORS
        for log_q_BT in (toy.NO_GUIDE_BT, toy.LOG_Q_BT)
    )
    rare = {f"{name}, {guide}": value for (name, guide), value in rare_at_rest().items()}
    return Statement(
        "where each estimator stops", "2, 4, 27, 38",
        "following the losses' expected gradients from the reference, only reward ends at Eq. 4; "
        "k3 ends at Eq. 27 state by state with beta q in beta's place, k3-corrected at Eq. 2 "
        "state by state without q",
        worst, "not as printed", rare,
    )  # fmt: skip


def branch_lowers_under_k3() -> Statement:
    """The toy under the authors' estimator."""
    rare = rare_at_rest()
    ratio = {name: rare[name, "branch"] / rare[name, "none"] for name in ESTIMATORS}
    clear = ratio["k3"] < 0.95 and ratio["reward"] > 1.05
    return Statement(
        "the toy under each estimator", "38, Thm 4.3",
        "branch lifts the toy's rare right answer under reward alone; under k3-corrected it "
        "does nothing, and under k3, the authors' estimator, it lowers it: the stronger pull at "
        "the branch keeps the wrong ways open too",
        distance(ratio["k3-corrected"], 1.0) if clear else np.inf, "not as printed",
        {f"branch over none, {name}": value for name, value in ratio.items()},
    )  # fmt: skip


def rare_at_rest() -> dict[tuple[Estimator, str], float]:
    """The rare answer's mass by estimator and guide (`none` or `branch`)."""
    return {
        (estimator, guide): toy.mass(toy.at_rest(estimator, log_q_BT))
        for estimator in ESTIMATORS
        for guide, log_q_BT in (("none", toy.NO_GUIDE_BT), ("branch", toy.LOG_Q_BT))
    }
