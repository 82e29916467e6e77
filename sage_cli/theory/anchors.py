"""Where other anchors end: MARA, references that move, guides that read grades, chosen rows."""

from __future__ import annotations

from functools import partial
from typing import get_args

import numpy as np
import torch

from sage_cli.methods.dph_rl import Divergence
from sage_cli.methods.dph_rl.formula import divergence, slope
from sage_cli.metrics.counts import FloatArray
from sage_cli.theory.ascent import ReverseKl, ascend, best_policy, softmax
from sage_cli.theory.optima import cases
from sage_cli.theory.paths import RARE, REFERENCE_B, RIGHT_B, Way, informative_mass, push
from sage_cli.theory.solutions import mode_anchored, normalised, tilted
from sage_cli.theory.statement import Found, distance, statement

THREE_B = np.array([0.6, 0.3, 0.1])
"""A reference of three answers, the first two right."""
BETA = 0.25
ORDER, LIMIT = 0.2, 30.0
"""Alpha of DPH-RL's third divergence; where log u would be continued linearly."""
PERIODS = 3
KEEP = 0.9
"""EMA-PG's eta."""


@statement("MARA ends uniform", "1, 2", "not in the paper")
def uniform_over_right() -> Found:
    """With MARA's reward 1 + beta log(P(z) / P_i) on right answers, z the likeliest of them, ascent
    ends at P(z) exp(1 / beta) for each right answer and P_k for each wrong one, normalised: what is
    right becomes uniform, and holds a little more than at Eq. 2.
    """
    worst = 0.0
    for p, beta in cases():
        reward_B = mode_anchored(p.right_B, p.reference_B, beta)
        best = p.reference_B[p.right_B > 0].max()
        closed_B = normalised(np.where(p.right_B > 0, best * np.exp(1 / beta), p.reference_B))
        worst = max(
            worst, distance(best_policy(ReverseKl(reward_B, p.reference_B, beta)), closed_B)
        )
        worst = max(worst, distance(tilted(reward_B, p.reference_B, beta), closed_B))
    right_B = np.array([1.0, 1.0, 0.0])
    found_B = tilted(mode_anchored(right_B, THREE_B, BETA), THREE_B, BETA)
    return worst, {
        "each of two right, pi_ref (.6, .3, .1), beta = .25": float(found_B[1]),
        "wrong": float(found_B[2]),
        "wrong at Eq. 2": float(tilted(right_B, THREE_B, BETA)[2]),
    }


@statement("DPH-RL holds the initial policy", "1", "not in the paper")
def initial_policy_is_held() -> Found:
    """On texts of the initial policy each of DPH-RL's divergences is least where the policy is the
    initial one, and ascent ends there from anywhere: a held problem pays nothing and keeps all.
    Away from it the pull on an answer that got rarer is strongest under the forward KL.
    """
    worst, pulls = 0.0, dict[str, float]()
    start_W = np.log(np.array([0.2, 0.2, 0.6]))
    for kind in get_args(Divergence):
        of_kind = partial(divergence_slope, kind=kind)
        worst = max(worst, distance(softmax(ascend(of_kind, start_W)), THREE_B))
        u = torch.tensor([0.25], dtype=torch.float64, requires_grad=True)
        value = divergence(u.log(), kind, alpha=ORDER, limit=LIMIT).sum()
        (by_u,) = torch.autograd.grad(value, u)
        worst = max(worst, abs(float(by_u) * 0.25 - slope(np.log(0.25), kind, alpha=ORDER)))
        pulls[f"slope in log u at u = 1/4, {kind}"] = slope(np.log(0.25), kind, alpha=ORDER)
    return worst, pulls


@statement("a guide that reads the grade", "4, 6", "not in the paper")
def grade_in_the_guide() -> Found:
    """Where q depends on the grade, the optimum is that of the plain anchor with beta log q added
    to the reward: the guide is a second reward. RAPO's, with phi_right = 1, leaves right answers as
    they are to each other and pays a wrong one beta times the log of its tempered mass over its
    own.
    """
    worst, right_B = 0.0, np.array([1.0, 0.0, 0.0])
    for p, beta in cases():
        q_B = np.where(p.right_B > 0, 1.0, tempered_reference(p.reference_B, 0.5) / p.reference_B)
        guided_B = best_policy(ReverseKl(p.right_B, q_B * p.reference_B, beta))
        paid_B = best_policy(ReverseKl(p.right_B + beta * np.log(q_B), p.reference_B, beta))
        closed_B = tilted(p.right_B, q_B * p.reference_B, beta)
        worst = max(worst, distance(guided_B, closed_B), distance(paid_B, closed_B))
    half_B = tempered_reference(THREE_B, 0.5)
    q_B = np.where(right_B > 0, 1.0, half_B / THREE_B)
    closed_B = tilted(right_B, q_B * THREE_B, BETA)
    return worst, {
        "tempered reference, phi = .5": float(half_B[0]),
        "wrong mass, RAPO, beta = .25": float(closed_B[1:].sum()),
        "wrong mass, Eq. 2": float(tilted(right_B, THREE_B, BETA)[1:].sum()),
        "reward added to wrong ones: .3": BETA * float(np.log(q_B[1])),
        "reward added: .1": BETA * float(np.log(q_B[2])),
    }


@statement("references that move", "2, 4", "not in the paper")
def moving_reference() -> Found:
    """Where the optimum is reached between moves, k resets leave P q^k exp(k r / beta), which is
    beta / k with the guide's factor to the power k, and n averages with weight eta on the reference
    are n (1 - eta) resets: wrong answers vanish, a guide's factor has no end, and without a guide
    right answers keep the ratio that they have, whichever it is.
    """
    worst = 0.0
    for p, beta in cases():
        if beta < 1:  # below it wrong answers fall under rounding at the second reset
            continue
        for keep in (0.0, KEEP):
            log_reference_B = np.log(p.reference_B)
            for period in range(PERIODS + 1):
                moved = period * (1 - keep)
                anchor_B = p.q_B * np.exp(log_reference_B)
                found_B = best_policy(ReverseKl(p.right_B, anchor_B, beta))
                worst = max(
                    worst, distance(found_B, at_rest(p.reference_B, p.q_B, p.right_B, beta, moved))
                )
                log_reference_B = keep * log_reference_B + (1 - keep) * np.log(found_B)
    q_B = 1 + 0.4 * (np.arange(len(REFERENCE_B)) == RARE)
    return worst, {
        f"rare right mass, q = 1.4, {moved} resets": float(
            at_rest(REFERENCE_B, q_B, RIGHT_B, 0.2, moved)[RARE]
        )
        for moved in (0, 1, 10, 20)
    }


@statement("rows decide what is restored", "1, 2", "not in the paper")
def chosen_rows() -> Found:
    """With the divergence in the reward, an anchor on wrong rows alone is at rest at the wrong mass
    (1 - p) exp(-1 / beta) with any split of the rest among right answers; on right rows alone it
    ends at P_i / p without wrong ones; on informative rows at Eq. 2's proportions with a right mass
    of its own.
    """
    beta, worst = 0.5, 0.0
    right_mass = float(REFERENCE_B @ RIGHT_B)
    left = (1 - right_mass) * np.exp(-1 / beta)
    for share in (0.1, 0.5, 0.9):
        rest_B = np.where(RIGHT_B > 0, 0.0, REFERENCE_B * np.exp(-1 / beta))
        rest_B[:2] = (1 - left) * share, (1 - left) * (1 - share)
        worst = max(worst, distance(push(Way(beta=beta, rows="wrong"), np.log(rest_B)), 0.0))
    ends = {
        rows: _ascended(Way(beta=beta, rows=rows)) for rows in ("wrong", "right", "informative")
    }
    worst = max(
        worst,
        distance(ends["wrong"][2:], REFERENCE_B[2:] * np.exp(-1 / beta)),
        distance(ends["right"], REFERENCE_B * RIGHT_B / right_mass),
        distance(ends["informative"], _proportional(informative_mass(beta))),
    )
    return worst, {
        f"rare right mass, {rows}, beta = .5": float(end_B[RARE]) for rows, end_B in ends.items()
    }


def tempered_reference(reference_B: FloatArray, phi: float) -> FloatArray:
    """Return RAPO's reference to the power phi, normalised."""
    return normalised(reference_B**phi)


def at_rest(
    reference_B: FloatArray, q_B: FloatArray, right_B: FloatArray, beta: float, moved: float
) -> FloatArray:
    """Return the optimum after the reference has moved `moved` times to an optimum."""
    times = moved + 1
    return tilted(times * right_B, q_B**times * reference_B, beta)


def _proportional(right_mass: float) -> FloatArray:
    """Return the reference with another right mass."""
    mass_B: FloatArray = np.where(
        RIGHT_B > 0,
        right_mass * REFERENCE_B / float(REFERENCE_B @ RIGHT_B),
        (1 - right_mass) * REFERENCE_B / float(REFERENCE_B @ (1 - RIGHT_B)),
    )
    return mass_B


def _ascended(way: Way) -> FloatArray:
    return softmax(ascend(lambda logit_B: push(way, logit_B), np.log(REFERENCE_B), 100_000))


def divergence_slope(logit_B: FloatArray, kind: Divergence) -> FloatArray:
    """Return the slope by the logits of minus the mean over `THREE_B` of a DPH-RL divergence."""
    logit = torch.from_numpy(logit_B).clone().requires_grad_()
    reference_B = torch.from_numpy(THREE_B)
    log_u_B = logit.log_softmax(dim=0) - reference_B.log()
    values_B = divergence(log_u_B, kind, alpha=ORDER, limit=LIMIT)
    (found,) = torch.autograd.grad(-(reference_B * values_B).sum(), logit)
    slope_B: FloatArray = found.numpy()
    return slope_B
