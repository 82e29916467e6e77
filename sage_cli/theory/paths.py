"""The way to the optimum: exact policy gradient on the logits of four answers, step by step.

Nothing is sampled: each step takes the expected gradient. What differs from one way to another is
what the policy is held to, and how strongly.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from scipy.optimize import brentq
from typing_extensions import TypedDict

from sage_cli.metrics.counts import FloatArray
from sage_cli.settings.sections.anchor import Rows
from sage_cli.theory.ascent import softmax
from sage_cli.theory.solutions import covering, mode_anchored, tilted

REFERENCE_B = np.array([0.300, 0.005, 0.300, 0.395])
RIGHT_B = np.array([1.0, 1.0, 0.0, 0.0])
FREQUENT, RARE = 0, 1
"""The two right answers."""
GROUP = 8
"""Completions of a prompt, on which `informative` depends."""


@dataclass(frozen=True)
class Way:
    """Whom the anchor holds (`rows`), how strongly, and where it is.

    `q` is a guide's factor on the rare right answer, the product over its tokens. Every `every`
    steps the logits of the reference become `keep` times themselves plus the rest of the policy's:
    0 is a reset. `mara` pays rare right answers for being rare; `natural` leaves out the policy's
    factor on the gradient of each logit. `covers`: the pull of the estimator k3.
    """

    beta: float = 0.04
    rows: Rows = "all"
    q: float = 1.0
    keep: float = 1.0
    every: int = 1
    mara: bool = False
    natural: bool = False
    covers: bool = False

    @property
    def reward(self) -> FloatArray:
        """The reward of each answer."""
        return mode_anchored(RIGHT_B, REFERENCE_B, self.beta) if self.mara else RIGHT_B

    @property
    def log_q(self) -> FloatArray:
        """The log of the guide's factor on each answer."""
        log_q_B: FloatArray = np.log(self.q) * (np.arange(len(RIGHT_B)) == RARE)
        return log_q_B


@dataclass(frozen=True)
class Ascent:
    """Several ways at once, X of them."""

    ways: tuple[Way, ...]
    beta_X1: FloatArray
    reward_XB: FloatArray
    log_q_XB: FloatArray
    held_XB: FloatArray
    informative_X1: FloatArray
    natural_X1: FloatArray
    covering_X1: FloatArray

    @classmethod
    def of(cls, ways: Sequence[Way]) -> Ascent:
        """Return the ways' numbers as arrays."""
        held = {"wrong": 1 - RIGHT_B, "right": RIGHT_B}
        return cls(
            tuple(ways),
            _column([0.0 if way.covers else way.beta for way in ways]),
            np.stack([way.reward for way in ways]),
            np.stack([way.log_q for way in ways]),
            np.stack([held.get(way.rows, np.ones_like(RIGHT_B)) for way in ways]),
            _column([way.rows == "informative" for way in ways]),
            _column([way.natural for way in ways]),
            _column([way.beta if way.covers else 0.0 for way in ways]),
        )

    def held(self, policy_XB: FloatArray) -> FloatArray:
        """Return the share of an answer's draws at which the anchor acts.

        Under `informative` a draw is left out where the rest of its group has its own grade.
        """
        right_X1 = policy_XB @ RIGHT_B[:, None]
        alike_XB = np.where(RIGHT_B > 0, right_X1, 1 - right_X1)
        held_XB: FloatArray = self.held_XB - self.informative_X1 * alike_XB ** (GROUP - 1)
        return held_XB

    def worth(self, policy_XB: FloatArray, log_reference_XB: FloatArray) -> FloatArray:
        """Return a_i = r_i - beta w_i (log pi_i - log q_i P_i), w_i being `held`'s share."""
        ratio_XB = np.log(policy_XB) - log_reference_XB - self.log_q_XB
        worth_XB: FloatArray = self.reward_XB - self.beta_X1 * self.held(policy_XB) * ratio_XB
        return worth_XB

    def push(self, policy_XB: FloatArray, log_reference_XB: FloatArray) -> FloatArray:
        """Return the expected gradient by the logits, pi_i (a_i - mean a), or a_i - mean a.

        k3's pull is added, beta (q_i P_i - pi_i sum q P): it has no factor pi_i where P has mass.
        """
        worth_XB = self.worth(policy_XB, log_reference_XB)
        gain_XB = worth_XB - (policy_XB * worth_XB).sum(axis=1, keepdims=True)
        push_XB: FloatArray = np.where(self.natural_X1 > 0, gain_XB, policy_XB * gain_XB)
        anchor_XB = np.exp(log_reference_XB + self.log_q_XB)
        pull_XB = anchor_XB - policy_XB * anchor_XB.sum(axis=1, keepdims=True)
        both_XB: FloatArray = push_XB + self.covering_X1 * pull_XB
        return both_XB

    def walk(self, marks: Sequence[int]) -> FloatArray:
        """Return the policies after so many steps of length 1, (marks, X, B)."""
        logit_XB = np.tile(np.log(REFERENCE_B), (len(self.ways), 1))
        log_reference_XB, policy_XB = logit_XB.copy(), np.exp(logit_XB)
        every_X1 = np.array([[way.every] for way in self.ways])
        keep_X1 = _column([way.keep for way in self.ways])
        moves = bool((keep_X1 < 1).any())
        found: dict[int, FloatArray] = {}
        for step in range(1, max(marks) + 1):
            logit_XB = logit_XB + self.push(policy_XB, log_reference_XB)
            policy_XB = np.exp(logit_XB - logit_XB.max(axis=1, keepdims=True))
            policy_XB = policy_XB / policy_XB.sum(axis=1, keepdims=True)
            if moves:
                keep_now_X1 = np.where(step % every_X1 == 0, keep_X1, 1.0)
                moved_XB = (1 - keep_now_X1) * np.log(policy_XB)
                log_reference_XB = keep_now_X1 * log_reference_XB + moved_XB
            if step in marks:
                found[step] = policy_XB
        return np.stack([found[mark] for mark in marks])


def walk(way: Way, marks: Sequence[int]) -> FloatArray:
    """Return the policies of one way after so many steps, (marks, B)."""
    policies: FloatArray = Ascent.of((way,)).walk(marks)[:, 0]
    return policies


def push(way: Way, logit_B: FloatArray) -> FloatArray:
    """Return the expected gradient by the logits, where the reference hasn't moved."""
    policy_1B, log_reference_1B = softmax(logit_B)[None], np.log(REFERENCE_B)[None]
    pushed_B: FloatArray = Ascent.of((way,)).push(policy_1B, log_reference_1B)[0]
    return pushed_B


class Path(TypedDict):
    """The rare right answer's mass after each of `Paths`' steps, and where it ends (None: nowhere
    of its own).
    """

    panel: str
    name: str
    beta: float
    mass: list[float]
    optimum: float | None


class Paths(TypedDict):
    """The ways compared: every path begins at the reference's mass."""

    step: list[int]
    shown: list[int]
    reference: float
    path: list[Path]


SHOWN = (20, 100, 1_000, 10_000)
STRENGTH, HELD, PAID = "strength", "rows and references", "guides and rewards"
COMPARED = (
    *((STRENGTH, f"beta {beta:g}", Way(beta)) for beta in (0.0, 0.01, 0.04, 0.1, 0.2, 0.5, 1.0)),
    *(
        (panel, name, replace(way, beta=beta))
        for beta in (0.04, 0.2)
        for panel, name, way in (
            (HELD, "rows all", Way()),
            (HELD, "rows wrong", Way(rows="wrong")),
            (HELD, "rows right", Way(rows="right")),
            (HELD, "rows informative", Way(rows="informative")),
            (HELD, "ema .9 every 10", Way(keep=0.9, every=10)),
            (HELD, "reset every 100", Way(keep=0.0, every=100)),
            (HELD, "reset every 1000", Way(keep=0.0, every=1_000)),
            (PAID, "no guide", Way()),
            (PAID, "q = 1.4", Way(q=1.4)),
            (PAID, "q = 1.4^10", Way(q=1.4**10)),
            (PAID, "q = 1.4^30", Way(q=1.4**30)),
            (PAID, "q = 1.4^100", Way(q=1.4**100)),
            (PAID, "mara", Way(mara=True)),
            (PAID, "natural gradient", Way(natural=True)),
            (PAID, "k3", Way(covers=True)),
            (PAID, "k3, q = 1.4", Way(covers=True, q=1.4)),
        )
    ),
)
"""Panel of the picture, name, way."""


def paths() -> Paths:
    """Return the paths of `COMPARED`, 10,000 steps of length 1."""
    marks = sorted({*SHOWN, *np.geomspace(1, max(SHOWN), 61).astype(int).tolist()})
    mass_KX = Ascent.of([way for *_, way in COMPARED]).walk(marks)[:, :, RARE]
    return {
        "step": marks,
        "shown": list(SHOWN),
        "reference": float(REFERENCE_B[RARE]),
        "path": [
            {
                "panel": panel,
                "name": name,
                "beta": way.beta,
                "mass": mass_KX[:, turn].tolist(),
                "optimum": optimum(way),
            }
            for turn, (panel, name, way) in enumerate(COMPARED)
        ],
    }


def optimum(way: Way) -> float | None:
    """Return the rare right answer's mass at the way's own optimum; None where there is none.

    References that move, an anchor on wrong rows and none at all keep what the path left.
    """
    if way.beta == 0 or way.keep < 1 or way.rows == "wrong":
        return None
    if way.rows == "right":
        return float(REFERENCE_B[RARE] / (REFERENCE_B @ RIGHT_B))
    if way.rows == "informative":
        return informative_mass(way.beta) * float(REFERENCE_B[RARE] / (REFERENCE_B @ RIGHT_B))
    anchor_B = np.exp(way.log_q) * REFERENCE_B
    if way.covers:
        return float(covering(way.reward, anchor_B, way.beta)[RARE])
    return float(tilted(way.reward, anchor_B, way.beta)[RARE])


def informative_mass(beta: float) -> float:
    """Return the right mass at which `informative` rows make right and wrong worth the same."""
    start = float(REFERENCE_B @ RIGHT_B)

    def lead(log_odds: float) -> float:
        mass, wrong = 1 / (1 + np.exp(-log_odds)), 1 / (1 + np.exp(log_odds))
        held = (1 - mass ** (GROUP - 1)) * np.log(mass / start)
        kept = (1 - wrong ** (GROUP - 1)) * np.log(wrong / (1 - start))
        return float(1 - beta * (held - kept))

    return float(1 / (1 + np.exp(-brentq(lead, -5.0, 35.0, xtol=1e-14))))


def _column(values: Sequence[float]) -> FloatArray:
    return np.array(values, dtype=float)[:, None]
