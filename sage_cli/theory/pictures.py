"""The numbers of the conceptual pictures: what the JSON holds and the drawings read."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from typing_extensions import TypedDict

from sage_cli.guides import BranchGuide, RandomGuide, TokenGuide
from sage_cli.metrics.counts import FloatArray
from sage_cli.theory import estimators, expansion, modes, sequences, support, toy
from sage_cli.theory.off_target import preference_needed
from sage_cli.theory.paths import Paths, paths
from sage_cli.theory.solutions import covering, tempered, tilted
from sage_cli.theory.tree import Tree, random_policy

COMPLETIONS = {
    "right, frequent": (0.30, 1.0, 1.0),
    "right, rare": (0.004, 1.0, 1.4),
    "wrong, frequent": (0.45, 0.0, 1.0),
    "wrong": (0.20, 0.0, 0.8),
    "wrong, uncommon": (0.042, 0.0, 1.0),
    "wrong, rare": (0.004, 0.0, 1.4),
}
"""Mass under the reference, reward, q."""
BETA, BONUS = 0.5, 0.5


class Solutions(TypedDict):
    """The optimum of each objective: mass by completion."""

    completions: list[str]
    beta: float
    q: FloatArray
    mass: dict[str, FloatArray]


class Anchors(TypedDict):
    """Shaped anchors: by guide, each completion's mass relative to the reference's."""

    reference: FloatArray
    shift: dict[str, FloatArray]


class Entering(TypedDict):
    """Answers that enter the support: by rollouts, by beta, and at rest by guide and estimator."""

    rollouts: FloatArray
    drawn: dict[str, list[float]]
    beta: FloatArray
    rare: dict[str, list[float]]
    reference: float
    delta: float
    toy_beta: float
    at_rest: dict[str, dict[str, float]]


class Change(TypedDict):
    """By guide and estimator, by how much of its length a gradient changes."""

    change: dict[str, dict[str, float]]


class Modes(TypedDict):
    """A reference of two modes, and the single bumps nearest to it."""

    place: FloatArray
    reference: FloatArray
    fits: Mapping[str, FloatArray]


class Needed(TypedDict):
    """The preference needed (Eq. 32): a row for each right mass, a column for each beta."""

    beta: FloatArray
    right_mass: FloatArray
    bound: list[list[float]]


Pictures = TypedDict(
    "Pictures",
    {
        "solutions": Solutions,
        "anchors": Anchors,
        "support": Entering,
        "estimators": Change,
        "modes": Modes,
        "off-target": Needed,
        "paths": Paths,
    },
)
"""Each picture's numbers by its name."""


def pictures() -> Pictures:
    """Compute the numbers of every picture."""
    return {
        "solutions": solutions(),
        "anchors": anchors(),
        "support": entering(),
        "estimators": change_of_gradients(),
        "modes": {
            "place": modes.PLACE_B,
            "reference": modes.two_modes(),
            "fits": modes.fits(),
        },
        "off-target": needed_preference(),
        "paths": paths(),
    }


def solutions() -> Solutions:
    """Return where each objective ends, on one prompt of six completions."""
    reference_B, right_B, q_B = np.array(list(COMPLETIONS.values())).T
    return {
        "completions": list(COMPLETIONS),
        "beta": BETA,
        "q": q_B,
        "mass": {
            "reference": reference_B,
            "reverse KL (2)": tilted(right_B, reference_B, BETA),
            "shaped anchor (4)": tilted(right_B, q_B * reference_B, BETA),
            "entropy bonus (21)": tempered(right_B, reference_B, BETA, BONUS),
            "forward KL (27)": covering(right_B, reference_B, BETA),
        },
    }


def anchors() -> Anchors:
    """Return each guide's factor on the reference's 256 completions of four tokens."""
    tree = Tree(vocabulary=4, steps=4)
    reference_ZV = random_policy(tree, seed=8, spread=1.5)
    guides = {
        "random": RandomGuide(),
        "token": TokenGuide(),
        "branch": BranchGuide(tau=0.8, rho=0.8),
    }
    reference_B = tree.masses(reference_ZV)
    shifts = {}
    for name, guide in guides.items():
        q_B = np.exp(tree.log_q(guide, reference_ZV).sum(axis=1))
        shifts[name] = q_B / (reference_B @ q_B)
    return {"reference": reference_B, "shift": shifts}


def entering() -> Entering:
    """Return the support under finite rollouts, and the toy's rare right answer."""
    rollouts = np.geomspace(1, 1e5, 101)
    betas = np.linspace(0.1, 1.0, 91)
    q_B = np.exp(toy.LOG_Q_BT.sum(axis=1))
    rare = expansion.rare_at_rest()
    return {
        "rollouts": rollouts,
        "drawn": {
            f"{mass:g}": [support.detection(mass, m) for m in rollouts]
            for mass in (0.05, 0.005, 0.0005)
        },
        "beta": betas,
        "rare": {
            "Eq. 2": [_rare(toy.REFERENCE_B, beta) for beta in betas],
            "Eq. 4, branch": [_rare(q_B * toy.REFERENCE_B, beta) for beta in betas],
        },
        "reference": float(toy.REFERENCE_B[toy.RARE]),
        "delta": toy.DELTA,
        "toy_beta": toy.BETA,
        "at_rest": {
            guide: {name: rare[name, guide] for name in estimators.ESTIMATORS}
            for guide in ("none", "branch")
        },
    }


def change_of_gradients() -> Change:
    """Return by how much of its length a guide changes each estimator's expected gradient."""
    known = dict(sequences.log_qs())
    log_q = {
        "random, in the mean": estimators.NO_GUIDE_BT,  # a statement of its own says why
        "random, one draw": known["random"],
        "token": known["token"],
        "branch": known["branch"],
    }
    return {
        "change": {
            guide: {name: _change(name, log_q_BT) for name in estimators.ESTIMATORS}
            for guide, log_q_BT in log_q.items()
        }
    }


def needed_preference() -> Needed:
    """Return Eq. 32's bound over beta and the reference's right mass."""
    betas, masses = np.geomspace(0.02, 2.0, 80), np.geomspace(1e-3, 0.9, 80)
    bound = [[preference_needed(p, beta) for beta in betas] for p in masses]
    return {"beta": betas, "right_mass": masses, "bound": bound}


def _change(estimator: estimators.Estimator, log_q_BT: FloatArray) -> float:
    plain_ZV = estimators.expected_gradient(estimator, estimators.NO_GUIDE_BT)
    change_ZV = estimators.expected_gradient(estimator, log_q_BT) - plain_ZV
    return float(np.linalg.norm(change_ZV) / np.linalg.norm(plain_ZV))


def _rare(anchor_B: FloatArray, beta: float) -> float:
    return float(tilted(toy.RIGHT_B, anchor_B, beta)[toy.RARE])
