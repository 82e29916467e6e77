"""Populations of problems and policies for benchmarks/coverage.py: where the truth is known."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import exp, lgamma

import numpy as np

from sage_cli.metrics import Counts

N = 256
Array = np.ndarray
Generator = np.random.Generator


@dataclass(frozen=True)
class Beta:
    """A population of problems whose success probabilities are Beta(a, b)."""

    a: float
    b: float
    name: str = ""

    def __str__(self) -> str:
        return f"Beta({self.a:g}, {self.b:g})" + (f", {self.name}" if self.name else "")

    def draw(self, problems: int | tuple[int, ...], generator: Generator) -> Array:
        """Success probabilities of so many problems."""
        return generator.beta(self.a, self.b, problems)

    def pass_at(self, k: int) -> float:
        """1 - E (1 - p)^k = 1 - B(a, b + k) / B(a, b)."""
        a, b = self.a, self.b
        return 1 - exp(lgamma(b + k) + lgamma(a + b) - lgamma(b) - lgamma(a + b + k))


SPREADS = [Beta(0.15, 0.75), Beta(0.05, 1), Beta(1, 2), Beta(2, 0.3)]
PUBLISHED = [
    (Beta(0.11, 3.23, "AIME base"), 60),
    (Beta(0.51, 0.926, "AMC23 base"), 40),
    (Beta(0.217, 0.521, "MATH-500 L5 base"), 134),
    (Beta(0.102, 1.52, "AIME branch"), 60),
    (Beta(0.522, 0.601, "AMC23 branch"), 40),
    (Beta(0.219, 0.461, "MATH-500 L5 branch"), 134),
]
"""The Beta distributions that have the paper's pass@1 and pass@256 (Table 1), and its problems."""
POPULATIONS = [(beta, P) for beta in SPREADS for P in (30, 60, 300)] + PUBLISHED


def counted(p_P: Array, generator: Generator, n: int = N) -> Counts:
    """n samples of each problem."""
    ids = tuple(map(str, range(len(p_P))))
    return Counts(ids, np.full(len(p_P), n), generator.binomial(n, p_P))


def shifted(p_P: Array, by: Array | float) -> Array:
    """Success probabilities moved on the logit scale."""
    odds = p_P * np.exp(by)
    return odds / (odds + (1 - p_P))


def raised(p_P: Array, generator: Generator) -> Array:
    """Better by 0.5 logits on average, with a deviation of 0.7 between problems."""
    return shifted(p_P, generator.normal(0.5, 0.7, p_P.shape))


def a_tenth_lost(p_P: Array, generator: Generator) -> Array:
    """Better by 1 logit, but one problem of ten is lost altogether: a skewed difference."""
    return np.where(generator.random(p_P.shape) < 0.1, 0.0, shifted(p_P, 1.0))


def rare_losses(p_P: Array, generator: Generator) -> Array:
    """3 % of the problems lost altogether, the others raised so that the mean stays: p / .97.

    The mean difference at k = 1 is 0 but for problems above .97, which can't be raised as much.
    """
    lost_P = generator.random(p_P.shape) < 0.03
    return np.where(lost_P, 0.0, np.minimum(1.0, p_P / 0.97))


Change = Callable[[Array, Generator], Array]
CHANGES: dict[str, Change] = {
    "none": lambda p_P, _: p_P,
    "raised": raised,
    "a tenth lost": a_tenth_lost,
}
RARE = [(Beta(a, b), P) for a, b in ((0.05, 1), (0.15, 0.75), (1, 2)) for P in (60, 134, 300, 1000)]
"""Where rare losses are simulated: hard, mixed and easy problems."""


Growing = Callable[[Array, float, Generator], Array]
GROWING: dict[str, tuple[Growing, float]] = {
    "many raised": (lambda p_P, by, g: shifted(p_P, g.normal(by, 0.5, p_P.shape)), 8.0),
    "few raised": (
        lambda p_P, by, g: np.where(g.random(p_P.shape) < by, np.maximum(p_P, 0.9), p_P),
        1.0,
    ),
    "few lost": (lambda p_P, by, g: np.where(g.random(p_P.shape) < by, 0.0, p_P), 1.0),
}
"""Changes by the amount that they are asked for, and the largest amount."""
DETECTED = [
    (Beta(0.15, 0.75), 60), (Beta(0.05, 1), 60), (Beta(0.05, 1), 300), (Beta(1, 2), 300),
    (Beta(0.51, 0.926, "AMC23 base"), 40), (Beta(0.217, 0.521, "MATH-500 L5 base"), 134),
]  # fmt: skip


def in_step(a_P: Array, b_P: Array, generator: Generator, n: int = N) -> tuple[Array, Array]:
    """Right ones among n samples of two policies that share their random numbers.

    A sample is right where its uniform number lies below the success probability: whatever the
    worse policy solves the better one solves too.
    """
    worse_P, better_P = np.minimum(a_P, b_P), np.maximum(a_P, b_P)
    both_P = generator.binomial(n, worse_P)
    rest_P = np.divide(better_P - worse_P, 1 - worse_P, out=np.zeros_like(a_P), where=worse_P < 1)
    more_P = both_P + generator.binomial(n - both_P, rest_P)
    return np.where(a_P >= b_P, more_P, both_P), np.where(a_P >= b_P, both_P, more_P)


def few_for_many(problems: int, generator: Generator) -> tuple[Array, Array]:
    """A policy that gives up 45 % of the problems for the others; they cross near k = 9."""
    lost_P = generator.random(problems) < 0.45
    base_P = generator.beta(1.2, 12, problems)
    return np.where(lost_P, 0.0, generator.beta(3, 5, problems)), base_P


def sharpened(problems: int, generator: Generator) -> tuple[Array, Array]:
    """Logits doubled about p = 1/4: what was likely becomes more so, what was rare rarer."""
    base_P = generator.beta(0.8, 1.6, problems)
    odds_P = 3 * (base_P / (1 - base_P)) ** 2
    return odds_P / (1 + odds_P), base_P


def alike(problems: int, generator: Generator) -> tuple[Array, Array]:
    """One policy, sampled twice."""
    base_P = generator.beta(0.5, 1, problems)
    return base_P, base_P


def ahead_then_equal(problems: int, generator: Generator) -> tuple[Array, Array]:
    """Half as likely again where the base solves a problem at all; both reach the same pass@k."""
    base_P = np.where(generator.random(problems) < 0.5, 0.0, generator.beta(6, 14, problems))
    return np.minimum(1, base_P * 1.5), base_P


def late(problems: int, generator: Generator) -> tuple[Array, Array]:
    """One problem of twelve lost, the others raised: they cross late, which few studies see."""
    base_P = generator.beta(0.3, 1, problems)
    lost_P = generator.random(problems) < 0.08
    return np.where(lost_P, 0.0, shifted(base_P, 0.6)), base_P


PAIRS = {
    "few problems for many": few_for_many,
    "sharpened": sharpened,
    "late": late,
    "one policy twice": alike,
    "ahead, then equal": ahead_then_equal,
}


@dataclass(frozen=True)
class Training:
    """How the runs of two methods vary: numbers of seeds, and deviations on the logit scale."""

    seeds: tuple[int, int]
    sds: tuple[float, float]
    correlation: float = 0.0
    """Of the seeds' effects on both methods; above 0 run i of both has the same seed."""
    problem_sd: float = 0.3
    """How differently a run, or a method, fares on different problems."""
    samples: int = 64


UNPAIRED = [
    Training(seeds, sds)
    for seeds in ((2, 2), (2, 3), (2, 6), (3, 3), (3, 8), (8, 3), (5, 5))
    for sds in ((0.2, 0.2), (0.3, 0.1), (0.4, 0.1))
]
"""Methods with seeds of their own: equal and unequal numbers, deviations of 1 to 4 times."""

PAIRED = [
    Training((seeds, seeds), (0.2, 0.2), correlation, 0.1)
    for seeds in (2, 3, 4, 8)
    for correlation in (0.0, 0.5, 0.9, 0.95)
]
"""Methods that share their training seeds."""

AGAINST_A_BASE = [
    (problems, Training((seeds, 1), (sd, 0.0), 0.0, problem_sd, N))
    for problems, problem_sd in ((60, 0.7), (300, 0.3))
    for seeds in (2, 3, 5)
    for sd in (0.0, 0.1, 0.2)
]
"""Methods whose runs are compared with one base, and on how many problems."""

SPREADS_OF_SEEDS = {
    "all alike": (0.2, 0.2, 0.2),
    "both compared twice the others'": (0.2, 0.2, 0.1),
    "one of the two twice all others'": (0.2, 0.1, 0.1),
    "others' twice those compared": (0.1, 0.1, 0.2),
}
"""Deviations of the seeds, in logits: of the two methods compared, and of the others of a suite."""


STORIES = {
    "50 clusters of 4": [4] * 50,
    "20 clusters of 8": [8] * 20,
    "60 of 1, 20 of 2 to 4, 8 of 12": [1] * 60 + [2, 3, 4, 3] * 5 + [12] * 8,
    "12 clusters of 5": [5] * 12,
}
"""Numbers of problems that are told alike: the last but one resembles SVAMP's test problems."""
SHARES = (0.0, 0.5, 1.0)
"""Of the variance of a problem's log-odds, and of what a method does to them, in its cluster."""


def solved(shift: float, sd: float) -> float:
    """A policy's mean pass@1 over problems and seeds: logits are normal, -1 + shift on average.

    `sd` is the deviation of what a method and its seeds add to the problems' own, 1.5.
    """
    node_G, weight_G = np.polynomial.hermite_e.hermegauss(80)
    logit_G = -1 + shift + np.hypot(1.5, sd) * node_G
    return float(weight_G @ (1 / (1 + np.exp(-logit_G))) / weight_G.sum())


def seed_effects(
    seeds: int, sds: tuple[float, ...], correlation: float, repetitions: int, generator: Generator
) -> list[Array]:
    """What each seed adds to each method's logits, shape (T, 1, R) a method."""
    shared_T1R = generator.standard_normal((seeds, 1, repetitions))
    own = (generator.standard_normal(shared_T1R.shape) for _ in sds)
    return [
        sd * (correlation**0.5 * shared_T1R + (1 - correlation) ** 0.5 * own_T1R)
        for sd, own_T1R in zip(sds, own, strict=True)
    ]


def runs_of(
    logit_PR: Array, effect_T1R: Array, problem_sd: float, samples: int, generator: Generator
) -> Array:
    """pass@1 of a method's runs, shape (T, P, R): a seed moves all problems of a repetition.

    Each run has its own luck with each problem besides, of deviation `problem_sd`.
    """
    own_TPR = generator.normal(0, problem_sd, (len(effect_T1R), *logit_PR.shape))
    right_TPR = generator.binomial(samples, 1 / (1 + np.exp(-logit_PR - own_TPR - effect_T1R)))
    return right_TPR / samples
