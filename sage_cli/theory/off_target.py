"""Wrong completions under SAGE and under forward KL (Appendix A.4)."""

from __future__ import annotations

import numpy as np

from sage_cli.metrics.counts import FloatArray
from sage_cli.theory.optima import cases
from sage_cli.theory.solutions import covering, covering_level, normalised, tilted, two_valued_level
from sage_cli.theory.statement import Found, distance, statement, violation


@statement("SAGE as reweighted forward KL", "28, 29", "on a condition")
def reweighting() -> float:
    """pi*_q is Eq. 27's policy times q exp(r / beta) (lambda - r) / beta, normalised: given lambda
    the reference cancels, but lambda still holds its right mass.
    """
    worst = 0.0
    for prompt, beta in cases():
        level = covering_level(prompt.right_B, prompt.reference_B, beta)
        weight_B = _weight(prompt.q_B, prompt.right_B, beta, level)
        found_B = normalised(weight_B * covering(prompt.right_B, prompt.reference_B, beta))
        guided_B = tilted(prompt.right_B, prompt.q_B * prompt.reference_B, beta)
        worst = max(worst, distance(found_B, guided_B))
    return worst


@statement("less off target", "30-32", "as printed")
def separation() -> Found:
    """Where q(right) / q(wrong) > exp(-1 / beta) lambda / (lambda - 1) for all pairs, SAGE leaves
    less mass on wrong completions than forward KL; the condition is not necessary.
    """
    worst, met, fewer = 0.0, 0, 0
    for prompt, beta in cases():
        level = covering_level(prompt.right_B, prompt.reference_B, beta)
        right_B = prompt.right_B > 0
        for strength in np.linspace(-1, 1, 21):
            q_B = prompt.q_B * np.exp(strength * prompt.right_B)
            wrong = 1 - tilted(prompt.right_B, q_B * prompt.reference_B, beta)[right_B].sum()
            covered = 1 - covering(prompt.right_B, prompt.reference_B, beta)[right_B].sum()
            weight_B = _weight(q_B, prompt.right_B, beta, level)
            fewer += bool(wrong < covered)
            bound = preference_needed(prompt.right_mass, beta)
            if q_B[right_B].min() / q_B[~right_B].max() > bound:
                met += 1
                worst = max(worst, violation(weight_B[~right_B].max(), weight_B[right_B].min()))
                worst = max(worst, violation(wrong, covered))
    error = worst if met else np.inf
    return error, {
        "cases that meet the condition": met,
        "cases with less mass on wrong ones": fewer,
    }


@statement("a weak preference may not do", "32", "not as printed")
def weak_preference() -> Found:
    """The bound on q(right) / q(wrong) is tiny for small beta but can exceed 1: at beta = .5 and a
    right mass of .1 a guide without preference leaves more on wrong completions than forward KL.

    A counterexample to "even a weak preference suffices".
    """
    beta, right_mass = 0.5, 0.1
    reference_2, right_2 = np.array([right_mass, 1 - right_mass]), np.array([1.0, 0.0])
    anchored = float(tilted(right_2, reference_2, beta)[1])
    covered = float(covering(right_2, reference_2, beta)[1])
    # both odds wrong : right by hand: .9 : .1 e^2, and .9 / lambda : .1 / (lambda - 1)
    level = two_valued_level(right_mass, beta)
    odds = [9 * np.exp(-2), 9 * (level - 1) / level]
    error = max(
        distance(anchored, odds[0] / (1 + odds[0])), distance(covered, odds[1] / (1 + odds[1]))
    )
    error = max(error, violation(covered, anchored))
    return error, {
        "wrong mass, Eq. 2": anchored,
        "wrong mass, Eq. 27": covered,
        "bound": preference_needed(right_mass, beta),
        "bound at beta = .05, p = .01": preference_needed(0.01, 0.05),
    }


@statement("what a stronger anchor keeps", "11, 27", "not in the paper")
def stronger_anchor() -> float:
    """Eq. 27's right mass falls as beta q rises: branch under k3 keeps every alternative of a state
    nearer to its reference mass, the wrong ones at the right ones' expense.
    """
    worst = 0.0
    for prompt, beta in cases():
        betas = beta * np.linspace(1, 1.4, 9)
        rights = [covering(prompt.right_B, prompt.reference_B, b) @ prompt.right_B for b in betas]
        worst = max(worst, violation(np.array(rights[1:]), np.array(rights[:-1])))
    return worst


def preference_needed(right_mass: float, beta: float) -> float:
    """Return Eq. 32's bound on q(right) / q(wrong); below 1 no preference is needed."""
    level = two_valued_level(right_mass, beta)
    return float(np.exp(-1 / beta) * level / (level - 1))


def _weight(q_B: FloatArray, right_B: FloatArray, beta: float, level: float) -> FloatArray:
    weight_B: FloatArray = q_B * np.exp(right_B / beta) * (level - right_B) / beta
    return weight_B
