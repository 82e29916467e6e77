"""What happens to a rare right answer before the optimum is reached (Eqs. 1 and 2 on the way)."""

from __future__ import annotations

from functools import cache

import numpy as np
import torch
from scipy.integrate import solve_ivp

from sage_cli.metrics.counts import FloatArray
from sage_cli.objectives import k3
from sage_cli.theory.ascent import softmax
from sage_cli.theory.paths import FREQUENT, RARE, REFERENCE_B, RIGHT_B, Way, push, walk
from sage_cli.theory.solutions import covering, tilted
from sage_cli.theory.statement import Found, distance, statement, violation

START_B = np.log(REFERENCE_B)
LATEST = 1e7
"""Until when the flow is followed, in steps of length 1."""
PRECISE = 1e-11


@statement("two right answers on the way", "1", "not in the paper")
def rates() -> Found:
    """Under the exact gradient by the logits, with a_i = r_i - beta log pi_i / (q_i P_i), the
    log-ratio of two answers changes at pi_i (a_i - mean a) - pi_j (a_j - mean a), and an answer
    grows exactly where pi_i (a_i - mean a) exceeds the sum of pi_k^2 (a_k - mean a).
    """
    worst = 0.0
    for way in (Way(), Way(beta=0.2, q=1.4), Way(beta=0.0)):
        for policy_B in (REFERENCE_B, walk(way, (20,))[0], walk(way, (100,))[0]):
            ratio, growth = log_ratio_rate(way, policy_B), growth_rate(way, policy_B)
            slope_B = by_autograd(way, policy_B)
            worst = max(
                worst,
                distance(slope_B[RARE] - slope_B[FREQUENT], ratio),
                distance(slope_B[RARE] - policy_B @ slope_B, growth),
            )
    return worst, {
        "log-ratio, at the start": log_ratio_rate(Way(), REFERENCE_B),
        "log of the rare one, at the start": growth_rate(Way(), REFERENCE_B),
        "after 20 steps": growth_rate(Way(), walk(Way(), (20,))[0]),
    }


@statement("a rare right answer loses on the way", "1, 2", "not in the paper")
def loses_without_an_anchor() -> Found:
    """Where beta is 0 the difference of exp(-z) between two right answers never changes, so the
    rarer one's logit rises by less than -log(1 - P_i / P_j) in all while the other's rises without
    end. Its mass goes to 0, and where beta is small it goes that way first, far from Eq. 2; the
    right mass p rises, at (1 - p)^2 sum_right pi^2 + p^2 sum_wrong pi^2, and pass@k with it.
    """
    kept = float(np.exp(-START_B[RARE]) - np.exp(-START_B[FREQUENT]))
    most = float(-np.log1p(-REFERENCE_B[RARE] / REFERENCE_B[FREQUENT]))
    worst = 0.0
    for until in (20.0, 100.0, 10_000.0):
        logit_B = flow(Way(beta=0.0), until)
        found = float(np.exp(-logit_B[RARE]) - np.exp(-logit_B[FREQUENT]))
        worst = max(worst, distance(found, kept) / kept)
        worst = max(worst, violation(float(logit_B[RARE] - START_B[RARE]), most))
        policy_B = softmax(logit_B)
        slope_B = by_autograd(Way(beta=0.0), policy_B)
        rise = (policy_B * RIGHT_B) @ (slope_B - policy_B @ slope_B)
        worst = max(worst, distance(rise, rise_without_an_anchor(policy_B)))
    marks = (20, 100, 10_000)
    path = walk(Way(), marks)[:, RARE]
    worst = max(worst, violation(path, np.array([REFERENCE_B[RARE], *path[:-1]])))
    return worst, {
        "most that its logit rises, beta = 0": most,
        "mass after 20 steps of length 1, beta = .04": float(path[0]),
        "after 100": float(path[1]),
        "after 10000": float(path[2]),
        "Eq. 2": float(tilted(RIGHT_B, REFERENCE_B, Way().beta)[RARE]),
    }


@statement("when it turns", "1, 2", "not in the paper")
def turning() -> Found:
    """The rarer answer stops losing against the other where beta times its deficit, which is
    log (q_i P_i / q_j P_j) - log (pi_i / pi_j), exceeds (a_j - mean a) (pi_j / pi_i - 1): at beta =
    .04 that is when nearly nothing is wrong any more, after a hundred thousand steps.
    """
    worst, values = 0.0, dict[str, float]()
    for beta in (0.04, 0.1, 0.2):
        way = Way(beta=beta)
        when, policy_B = turn(way)
        odds = float(policy_B[FREQUENT] / policy_B[RARE])
        needed = float(gains(way, policy_B)[FREQUENT]) * (odds - 1)
        gained = beta * (_ratio(REFERENCE_B) - _ratio(policy_B))
        worst = max(worst, abs(gained / needed - 1))
        for moment in (0.5, 2.0):  # it is the lowest of all
            other_B = softmax(flow(way, moment * when))
            worst = max(worst, violation(_ratio(policy_B), _ratio(other_B)))
        values |= {
            f"steps, beta = {beta:g}": when,
            f"mass, beta = {beta:g}": float(policy_B[RARE]),
            f"wrong mass, beta = {beta:g}": float(policy_B @ (1 - RIGHT_B)),
        }
    return worst, values


@statement("what a guide does on the way", "1, 4", "not in the paper")
def guide_needed() -> Found:
    """From the reference on, a guide keeps the rarer right answer from losing against the other
    only where beta log q reaches (1 - p) (P_j / P_i - 1) / (1 + P_j - P_i), p being the right mass:
    what counts is the ratio of the two, not its log, where a guide's factor counts by its log.
    """
    worst, needed = 0.0, guide_that_holds()
    for beta in (0.2, 1.0):
        way = Way(beta=beta, q=float(np.exp(needed / beta)))
        slope_B = by_autograd(way, REFERENCE_B)
        worst = max(worst, distance(slope_B[RARE], slope_B[FREQUENT]))
    marks = (100, 10_000)
    paths = {q: walk(Way(q=q), marks)[:, RARE] for q in (1.0, 1.4)}
    return worst, {
        "beta log q needed": needed,
        "tokens at q_t = 1.4 needed, beta = .04": needed / 0.04 / float(np.log(1.4)),
        "mass with q = 1.4 over q = 1, 100 steps": float(paths[1.4][0] / paths[1.0][0]),
        "10000 steps": float(paths[1.4][1] / paths[1.0][1]),
    }


@statement("it is the gradient by the logits", "1, 2", "not in the paper")
def natural_gradient() -> Found:
    """The natural gradient, which leaves out the factor pi_i, loses no right answer on the way: in
    steps of 1 the log-odds come nearer to Eq. 4's by the factor 1 - beta, so that two right answers
    keep their ratio but for a guide's, whose factor is q^(1 - (1 - beta)^t).
    """
    worst = 0.0
    for beta, q in ((0.04, 1.0), (0.2, 1.4)):
        way = Way(beta=beta, q=q, natural=True)
        for steps in (1, 5, 20):
            done = 1 - (1 - beta) ** steps
            closed_B = softmax(START_B + done * (way.log_q + RIGHT_B / beta))
            found_B = walk(way, (steps,))[0]
            worst = max(worst, distance(found_B, closed_B))
            gain = _ratio(found_B) - _ratio(REFERENCE_B)
            worst = max(worst, distance(gain, done * float(np.log(q))))
    return worst, {"mass after 20 steps": float(walk(Way(natural=True), (20,))[0, RARE])}


@statement("k3 holds a rare answer on the way", "27, 38", "not in the paper")
def covering_on_the_way() -> Found:
    """k3's pull on a logit is beta (q_i P_i - pi_i sum q P), which does not vanish with the
    answer's mass as the reverse KL's does: a rare right answer loses at first, turns early, and
    comes to Eq. 27's mass.
    """
    worst, lowest, latest = 0.0, dict[float, float](), dict[float, float]()
    for beta, q in ((0.04, 1.0), (0.2, 1.0), (0.2, 1.4)):
        way = Way(beta=beta, q=q, covers=True)
        for policy_B in (REFERENCE_B, walk(way, (100,))[0]):
            worst = max(worst, distance(push(way, np.log(policy_B)), k3_by_autograd(way, policy_B)))
        end_B = covering(RIGHT_B, np.exp(way.log_q) * REFERENCE_B, beta)
        worst = max(worst, distance(push(way, np.log(end_B)), np.zeros_like(end_B)))
        masses = walk(way, tuple(range(1, 10_001)))[:, RARE]
        worst = max(worst, violation(float(masses.min()), float(masses[-1])))
        if q == 1:
            lowest[beta], latest[beta] = float(masses.min()), float(masses[-1])
    values = {f"lowest mass in 10000 steps, beta = {b:g}": mass for b, mass in lowest.items()}
    values |= {f"mass after them, beta = {b:g}": mass for b, mass in latest.items()}
    return worst, values


def log_ratio_rate(way: Way, policy_B: FloatArray) -> float:
    """Return d/dt log(pi_i / pi_j), i the rare right answer and j the frequent one."""
    gain_B = gains(way, policy_B)
    return float(policy_B[RARE] * gain_B[RARE] - policy_B[FREQUENT] * gain_B[FREQUENT])


def growth_rate(way: Way, policy_B: FloatArray) -> float:
    """Return d/dt log pi_i of the rare right answer."""
    gain_B = gains(way, policy_B)
    return float(policy_B[RARE] * gain_B[RARE] - policy_B**2 @ gain_B)


def rise_without_an_anchor(policy_B: FloatArray) -> float:
    """Return dp/dt at beta = 0, p being the right mass: it is never below 0."""
    right_mass = float(policy_B @ RIGHT_B)
    return float((1 - right_mass) ** 2 * RIGHT_B @ policy_B**2) + float(
        right_mass**2 * (1 - RIGHT_B) @ policy_B**2
    )


def gains(way: Way, policy_B: FloatArray) -> FloatArray:
    """Return a_i - mean a under `rows` all, written out."""
    log_anchor_B = way.log_q + START_B
    worth_B = way.reward - way.beta * (np.log(policy_B) - log_anchor_B)
    gain_B: FloatArray = worth_B - policy_B @ worth_B
    return gain_B


def guide_that_holds() -> float:
    """Return the beta log q at which the two right answers' ratio is at rest at the reference."""
    frequent, rare = float(REFERENCE_B[FREQUENT]), float(REFERENCE_B[RARE])
    return float(REFERENCE_B @ (1 - RIGHT_B)) * (frequent / rare - 1) / (1 + frequent - rare)


def by_autograd(way: Way, policy_B: FloatArray) -> FloatArray:
    """Return the derivative by the logits of E[r] - beta D(pi || q P), by autograd."""
    logit_B = torch.from_numpy(np.log(policy_B)).requires_grad_()
    log_B = logit_B.log_softmax(dim=0)
    ratio_B = log_B - torch.from_numpy(way.log_q + START_B)
    value = (log_B.exp() * (torch.from_numpy(way.reward) - way.beta * ratio_B)).sum()
    (slope_B,) = torch.autograd.grad(value, logit_B)
    found_B: FloatArray = slope_B.numpy()
    return found_B


def k3_by_autograd(way: Way, policy_B: FloatArray) -> FloatArray:
    """Return the derivative by the logits of E[r] less beta times k3, sampled from the policy."""
    logit_B = torch.from_numpy(np.log(policy_B)).requires_grad_()
    log_B, fixed_B = logit_B.log_softmax(dim=0), torch.from_numpy(policy_B)
    reward = (log_B.exp() * torch.from_numpy(way.reward)).sum()
    term_B = k3(log_B, torch.from_numpy(START_B), torch.from_numpy(way.log_q))
    (slope_B,) = torch.autograd.grad(reward - way.beta * (fixed_B * term_B).sum(), logit_B)
    found_B: FloatArray = slope_B.numpy()
    return found_B


def flow(way: Way, until: float) -> FloatArray:
    """Return the logits after following the gradient without steps."""
    return _followed(way, until)[1]


@cache
def turn(way: Way) -> tuple[float, FloatArray]:
    """Return when the flow's two right answers stop parting, and its policy there."""
    when, logit_B = _followed(way, LATEST, stop=True)
    return when, softmax(logit_B)


def _followed(way: Way, until: float, stop: bool = False) -> tuple[float, FloatArray]:
    def parting(_: float, logit_B: FloatArray) -> float:
        slope_B = push(way, logit_B)
        return float((slope_B[RARE] - slope_B[FREQUENT]) / np.exp(logit_B[RARE]))

    parting.terminal = stop  # type: ignore[attr-defined]
    done = solve_ivp(
        lambda _, logit_B: push(way, logit_B),
        (0.0, until),
        START_B,
        method="LSODA",
        events=parting,
        rtol=PRECISE,
        atol=PRECISE,
    )
    return float(done.t[-1]), np.asarray(done.y[:, -1])


def _ratio(policy_B: FloatArray) -> float:
    """Return the log of the rare right answer's mass over the frequent one's."""
    return float(np.log(policy_B[RARE] / policy_B[FREQUENT]))
