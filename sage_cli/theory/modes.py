"""Mode seeking and mode covering (Figure 5): a policy that can be anything, and one that can't."""

from __future__ import annotations

from functools import cache

import numpy as np

from sage_cli.metrics.counts import FloatArray
from sage_cli.theory.ascent import ForwardKl, ReverseKl, best_policy
from sage_cli.theory.solutions import normalised
from sage_cli.theory.statement import Statement, distance

PLACE_B = np.linspace(-4, 4, 81)
"""Completions on a line, so that a policy of one bump has a meaning."""
BUMP_BD = np.stack([PLACE_B, -(PLACE_B**2)], axis=1)
"""Features of a bump: its logits are a parabola."""
NO_REWARD_B = np.zeros_like(PLACE_B)
STARTS = {"left": -2.0, "right": 2.0}


def two_modes() -> FloatArray:
    """A reference with modes at -2 (three parts of five) and 2."""
    left_B, right_B = (np.exp(-((PLACE_B - centre) ** 2) / 0.5) for centre in (-2, 2))
    return normalised(3 * left_B + 2 * right_B)


@cache
def fits() -> dict[str, FloatArray]:
    """The best single bump by each divergence; the reverse one from both sides."""
    reference_B = two_modes()
    found = {"forward": _fit(ForwardKl(NO_REWARD_B, reference_B, 1.0), 0.0)}
    for side, centre in STARTS.items():
        found[f"reverse, {side}"] = _fit(ReverseKl(NO_REWARD_B, reference_B, 1.0), centre)
    return found


def covering_matches_moments() -> Statement:
    """The forward KL's best bump."""
    reference_B, bump_B = two_modes(), fits()["forward"]
    return Statement(
        "mode covering", "27, Fig. 5",
        "the single bump nearest by forward KL has the reference's mean and variance: it covers "
        "both modes, and the valley between them",
        distance(bump_B @ BUMP_BD, reference_B @ BUMP_BD), "as printed",
        {"mass within 1 of 0, where the reference has little": _near(bump_B, 0.0),
         "the reference's": _near(reference_B, 0.0)},
    )  # fmt: skip


def seeking_takes_one() -> Statement:
    """The reverse KL's best bumps: stationary, on one mode each."""
    reference_B, worst, masses = two_modes(), 0.0, {}
    for side, centre in STARTS.items():
        bump_B = fits()[f"reverse, {side}"]
        ratio_B = np.log(bump_B / reference_B)
        slope_D = (bump_B * (ratio_B - bump_B @ ratio_B)) @ BUMP_BD
        worst = max(worst, distance(slope_D, 0.0))
        masses[f"mass within 1 of the {side} mode"] = _near(bump_B, centre)
    return Statement(
        "mode seeking", "1, Fig. 5",
        "a single bump fitted by reverse KL stops on whichever mode it starts near",
        worst if min(masses.values()) > 0.95 else np.inf, "as printed", masses,
    )  # fmt: skip


def any_policy_has_one_optimum() -> Statement:
    """Without the bump's restriction."""
    reference_B = (two_modes() + 1e-4) / (1 + 1e-4 * len(PLACE_B))
    found = [best_policy(kind(NO_REWARD_B, reference_B, 1.0)) for kind in (ReverseKl, ForwardKl)]
    return Statement(
        "seeking needs a restriction", "1, 27, Fig. 5",
        "a policy that can be any distribution ends at the reference itself under both "
        "divergences: that reverse KL seeks modes is a property of restricted policies, not of "
        "Eq. 1",
        max(distance(policy_B, reference_B) for policy_B in found), "on a condition",
    )  # fmt: skip


def _fit(objective: ReverseKl | ForwardKl, centre: float) -> FloatArray:
    """From a bump of variance 1 / 2 at `centre`."""
    return best_policy(objective, BUMP_BD, np.array([2 * centre, 1.0]))


def _near(policy_B: FloatArray, centre: float) -> float:
    return float(policy_B[np.abs(PLACE_B - centre) <= 1 + 1e-9].sum())
