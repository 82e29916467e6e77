"""Optima of the objectives: closed forms against gradient ascent."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from sage_cli.metrics.counts import FloatArray
from sage_cli.theory.ascent import ForwardKl, ReverseKl, best_policy
from sage_cli.theory.solutions import covering, covering_level, tempered, tilted, two_valued_level
from sage_cli.theory.statement import Found, distance, statement, violation

BETAS = (0.2, 0.5, 1.0)
"""Below .2 the wrong completions' optimal mass is under exp(-1 / beta) = 1 %, and vanishes soon."""
BONUS = 0.3


@dataclass(frozen=True)
class Prompt:
    """One prompt: the reference's mass of each completion, which are right, and a guide's q."""

    reference_B: FloatArray
    right_B: FloatArray
    q_B: FloatArray

    @property
    def right_mass(self) -> float:
        """The probability p that the reference is right."""
        return float(self.reference_B @ self.right_B)


def prompts(count: int = 3) -> Iterator[Prompt]:
    """Return prompts with eight completions, three of them right, some a thousand times rarer."""
    generator = np.random.default_rng(1)
    for _ in range(count):
        weight_B = 1e-3 + generator.dirichlet(np.full(8, 0.5))
        q_B = np.exp(generator.uniform(np.log(0.6), np.log(1.4), 8))
        yield Prompt(weight_B / weight_B.sum(), (np.arange(8) < 3).astype(float), q_B)


def cases() -> Iterator[tuple[Prompt, float]]:
    """Return every prompt with every beta."""
    for prompt in prompts():
        for beta in BETAS:
            yield prompt, beta


@statement("exponential tilting", "1, 2", "as printed")
def reverse_kl() -> float:
    """Gradient ascent on E[r] - beta KL(pi || pi_ref) ends at pi_ref exp(r / beta) / Z."""
    return max(
        distance(
            best_policy(ReverseKl(p.right_B, p.reference_B, beta)),
            tilted(p.right_B, p.reference_B, beta),
        )
        for p, beta in cases()
    )


@statement("the multiplier", "14-18", "as printed")
def lagrangian() -> float:
    """At the closed form every completion's derivative is lambda = beta (log Z - 1), whether or not
    the anchor sums to one.
    """
    worst = 0.0
    for p, beta in cases():
        anchor_B = p.q_B * p.reference_B
        weight_B = anchor_B * np.exp(p.right_B / beta)
        multiplier = beta * (np.log(weight_B.sum()) - 1)
        slope_B = ReverseKl(p.right_B, anchor_B, beta).slope(weight_B / weight_B.sum())
        worst = max(worst, distance(slope_B, multiplier))
    return worst


@statement("shaped anchor", "3, 4, 6", "as printed")
def shaped_anchor() -> float:
    """Gradient ascent on E[r] - beta D(pi || q pi_ref) ends at q pi_ref exp(r / beta) / Z, and a
    constant factor on q changes nothing.
    """
    worst = 0.0
    for p, beta in cases():
        anchor_B = p.q_B * p.reference_B
        closed_B = tilted(p.right_B, anchor_B, beta)
        found_B = best_policy(ReverseKl(p.right_B, anchor_B, beta))
        worst = max(worst, distance(found_B, closed_B))
        worst = max(worst, distance(tilted(p.right_B, 7 * anchor_B, beta), closed_B))
    return worst


@statement("no sharpening among right answers", "2", "not as printed")
def sharpening() -> Found:
    """The optimum multiplies every right completion by one and the same factor above 1: rare ones
    stay rare beside frequent ones, but none of them loses, and pass@k falls for no k.
    """
    worst, least_gain = 0.0, np.inf
    for p, beta in cases():
        right_B = p.right_B > 0
        gain_B = tilted(p.right_B, p.reference_B, beta)[right_B] / p.reference_B[right_B]
        worst = max(worst, distance(gain_B, gain_B[0]), violation(1.0, gain_B))
        least_gain = min(least_gain, float(gain_B.min()))
    return worst, {"smallest factor": least_gain}


@statement("entropy bonus", "19-21", "as printed")
def entropy_bonus() -> float:
    """An entropy bonus ends at Eq. 2's policy to the power beta / (beta + alpha_H): every log-ratio
    shrinks by one factor, so that no two completions change places.
    """
    worst = 0.0
    for p, beta in cases():
        closed_B = tempered(p.right_B, p.reference_B, beta, BONUS)
        ascended_B = best_policy(ReverseKl(p.right_B, p.reference_B, beta, BONUS))
        plain_B = tilted(p.right_B, p.reference_B, beta)
        shrunk_B = np.log(plain_B / plain_B[0]) * beta / (beta + BONUS)
        worst = max(
            worst,
            distance(ascended_B, closed_B),
            distance(np.log(closed_B / closed_B[0]), shrunk_B),
        )
    return worst


@statement("forward KL", "27", "as printed")
def forward_kl() -> float:
    """Gradient ascent on E[r] - beta KL(pi_ref || pi) ends at beta pi_ref / (lambda - r); lambda is
    the larger root of a quadratic equation in which pi_ref is its right mass alone.
    """
    worst = 0.0
    for p, beta in cases():
        closed_B = covering(p.right_B, p.reference_B, beta)
        found_B = best_policy(ForwardKl(p.right_B, p.reference_B, beta))
        level = covering_level(p.right_B, p.reference_B, beta)
        worst = max(
            worst,
            distance(found_B, closed_B),
            distance(level, two_valued_level(p.right_mass, beta)),
        )
    return worst
