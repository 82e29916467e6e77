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


Change = Callable[[Array, Generator], Array]
CHANGES: dict[str, Change] = {
    "none": lambda p_P, _: p_P,
    "raised": raised,
    "a tenth lost": a_tenth_lost,
}


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


PAIRS = {
    "few problems for many": few_for_many,
    "sharpened": sharpened,
    "one policy twice": alike,
    "ahead, then equal": ahead_then_equal,
}


@dataclass(frozen=True)
class Training:
    """How runs of two methods vary: deviations on the logit scale."""

    seeds: int
    samples: int
    sd_a: float
    sd_b: float
    problem_sd: float = 0.0
    """How differently the methods fare on different problems."""


TRAININGS = [
    Training(seeds, samples, *deviations)
    for deviations in ((0.2, 0.2, 0.0), (0.1, 0.3, 0.0), (0.2, 0.2, 0.5))
    for samples in (8, 256)
    for seeds in (2, 3, 5)
]


def runs_of(logit_PR: Array, training: Training, sd: float, generator: Generator) -> Array:
    """pass@1 of a method's runs, shape (T, P, R): a seed moves all problems of a repetition."""
    own_PR = logit_PR + generator.normal(0, training.problem_sd, logit_PR.shape)
    shift_T1R = generator.normal(0, sd, (training.seeds, 1, logit_PR.shape[1]))
    right_TPR = generator.binomial(training.samples, 1 / (1 + np.exp(-own_PR - shift_T1R)))
    return right_TPR / training.samples
