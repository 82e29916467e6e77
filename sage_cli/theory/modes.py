"""Mode seeking and mode covering (Figure 5): an unrestricted policy and a single bump."""

from __future__ import annotations

from functools import cache

import numpy as np

from sage_cli.metrics.counts import FloatArray
from sage_cli.theory.ascent import ForwardKl, ReverseKl, best_policy
from sage_cli.theory.solutions import normalised
from sage_cli.theory.statement import Found, distance, statement

PLACE_B = np.linspace(-4, 4, 81)
"""Completions on a line, so that a policy of one bump has a meaning."""
BUMP_BW = np.stack([PLACE_B, -(PLACE_B**2)], axis=1)
"""Features of a bump: its logits are a parabola."""
NO_REWARD_B = np.zeros_like(PLACE_B)
STARTS = {"left": -2.0, "right": 2.0}


def two_modes() -> FloatArray:
    """Return a reference with modes at -2 (three parts of five) and 2."""
    left_B, right_B = (np.exp(-((PLACE_B - centre) ** 2) / 0.5) for centre in (-2, 2))
    return normalised(3 * left_B + 2 * right_B)


@cache
def fits() -> dict[str, FloatArray]:
    """Return the best single bump by each divergence; the reverse one from both sides."""
    reference_B = two_modes()
    found = {"forward": _fit(ForwardKl(NO_REWARD_B, reference_B, 1.0), 0.0)}
    for side, centre in STARTS.items():
        found[f"reverse, {side}"] = _fit(ReverseKl(NO_REWARD_B, reference_B, 1.0), centre)
    return found


@statement("mode covering", "27, Fig. 5", "as printed")
def covering_matches_moments() -> Found:
    """The single bump nearest by forward KL has the reference's mean and variance: it covers both
    modes, and the valley between them.
    """
    reference_B, bump_B = two_modes(), fits()["forward"]
    error = distance(bump_B @ BUMP_BW, reference_B @ BUMP_BW)
    return error, {
        "mass within 1 of 0, where the reference has little": _near(bump_B, 0.0),
        "the reference's": _near(reference_B, 0.0),
    }


@statement("mode seeking", "1, Fig. 5", "as printed")
def seeking_takes_one() -> Found:
    """A single bump fitted by reverse KL stops on whichever mode it starts near."""
    reference_B, worst, masses = two_modes(), 0.0, {}
    for side, centre in STARTS.items():
        bump_B = fits()[f"reverse, {side}"]
        ratio_B = np.log(bump_B / reference_B)
        slope_W = (bump_B * (ratio_B - bump_B @ ratio_B)) @ BUMP_BW
        worst = max(worst, distance(slope_W, 0.0))
        masses[f"mass within 1 of the {side} mode"] = _near(bump_B, centre)
    return worst if min(masses.values()) > 0.95 else np.inf, masses


@statement("seeking needs a restriction", "1, 27, Fig. 5", "on a condition")
def any_policy_has_one_optimum() -> float:
    """A policy that can be any distribution ends at the reference itself under both divergences:
    that reverse KL seeks modes is a property of restricted policies, not of Eq. 1.
    """
    reference_B = (two_modes() + 1e-4) / (1 + 1e-4 * len(PLACE_B))
    found = [best_policy(kind(NO_REWARD_B, reference_B, 1.0)) for kind in (ReverseKl, ForwardKl)]
    return max(distance(policy_B, reference_B) for policy_B in found)


def _fit(objective: ReverseKl | ForwardKl, centre: float) -> FloatArray:
    """Return the best bump, from one of variance 1 / 2 at `centre` on."""
    return best_policy(objective, BUMP_BW, np.array([2 * centre, 1.0]))


def _near(policy_B: FloatArray, centre: float) -> float:
    return float(policy_B[np.abs(PLACE_B - centre) <= 1 + 1e-9].sum())
