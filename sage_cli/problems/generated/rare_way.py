"""Products of three factors that two ways solve; the common one fails on half of the problems.

`C`, the common way, multiplies from left to right; `R`, the rare one, begins with the last two:

    24*4*7=?   C:24*4=96;96*7=672       R:4*7=28;24*28=672
    47*3*2=?   C:47*3=141;141*2=282     R:3*2=6;47*6=282

A product of a two-digit number by a digit is a fact that a small model learns. On the first
problem C needs no more, and R a product of two-digit numbers in one go, which it can only guess; on
the second R needs no more, and C multiplies a three-digit number. Every problem is of one of these
kinds, and whether the last two factors multiply to one digit tells which. Demonstrations choose the
way without looking at the problem, R seldom, so an initial policy is right where chance has it
choose the near way.

Random choices depend on `RareWaySection.seed` and their purpose, never on the process.
"""

from __future__ import annotations

import random
import re
from functools import cached_property
from itertools import accumulate, product
from typing import ClassVar, Self

from sage_cli.errors import DataError
from sage_cli.problems.generated.generator import Generator, Split, seeded, stretches
from sage_cli.problems.problem import Demonstration, Problem
from sage_cli.settings.sections.data import DataSection
from sage_cli.settings.sections.generators import RareWayPhaseSection, RareWaySection

Factors = tuple[int, int, int]
_FACTORS = re.compile(r"(\d+)\*(\d)\*(\d)=\?")
DIGITS = range(2, 10)


def working_out(way: str, a: int, b: int, c: int) -> str:
    """Return the solution of a * b * c by a way (C or R)."""
    if way == "C":
        return f"C:{a}*{b}={a * b};{a * b}*{c}={a * b * c}"
    return f"R:{b}*{c}={b * c};{a}*{b * c}={a * b * c}"


def near_way(a: int, b: int, c: int) -> str | None:
    """Return the way that needs no more than facts; None where both or neither do."""
    common, rare = a * b < 100, b * c < 10
    return None if common == rare else "C" if common else "R"


class RareWay(Generator):
    """The problems of the preset of that name: exploring pays, and exact chances say how much.

    Training problems are never demonstrated, so a way's answer there isn't remembered. Each split
    has as many problems of either kind, as far as there are.
    """

    name = "rare-way"
    title = "Products with a rare way"
    splits: ClassVar[tuple[Split, ...]] = ("test", "validation", "training")
    settings = RareWaySection
    modes = {way: f"{way}:" for way in "CR"}  # noqa: RUF012
    mode_words = {  # noqa: RUF012
        "C": "multiplies from left to right",
        "R": "begins with the last two factors",
    }
    section: RareWaySection

    @classmethod
    def of(cls, data: DataSection) -> Self:
        """As `data.rare_way` sets it."""
        return cls(data.rare_way)

    def problems(self, split: Split) -> list[Problem]:
        """Products of which no two splits share one; `near` is the way that needs only facts."""
        return [
            self.problem(split, f"{a}*{b}*{c}=?", str(a * b * c), near=near_way(a, b, c))
            for a, b, c in self._chosen[0][split]
        ]

    def demonstrations(self, count: int, batch_size: int) -> list[Demonstration]:  # noqa: ARG002
        """Phase after phase."""
        rng = seeded(self.section.seed, "demonstrations")
        return [
            self._demonstration(phase, rng)
            for phase, length in stretches(self.section.phases, count)
            for _ in range(length)
        ]

    @cached_property
    def _chosen(self) -> tuple[dict[Split, list[Factors]], list[list[Factors]], frozenset[int]]:
        """The splits, the problems to demonstrate by kind, the familiar factors.

        No problem is in two of them. Raises DataError where too few are left.
        """
        section = self.section
        factors = range(section.low, section.high + 1)
        rng = seeded(section.seed, "problems")
        familiar = frozenset(rng.sample(factors, round(section.familiar_share * len(factors))))
        kinds: dict[str, list[Factors]] = {"C": [], "R": []}
        for problem in product(factors, DIGITS, DIGITS):
            if (way := near_way(*problem)) is not None:
                kinds[way].append(problem)
        for problems in kinds.values():
            rng.shuffle(problems)
        ends = list(accumulate((section.held_out, section.validation, section.training)))
        if any(len(problems) <= (ends[-1] + 1) // 2 for problems in kinds.values()):
            least = min(map(len, kinds.values()))
            raise DataError(
                f"{ends[-1]} problems to test, validate and train on leave none to demonstrate: "
                f"there are {least} of the scarcer kind, and half are of it",
                "lower data.rare_way.held_out, data.rare_way.validation or data.rare_way.training",
            )
        splits: dict[Split, list[Factors]] = {}
        for name, start, end in zip(self.splits, [0, *ends], ends, strict=False):
            problems = [one for kind in kinds.values() for one in kind[start // 2 : end // 2]]
            splits[name] = rng.sample(problems, len(problems))
        shown = [kind[ends[-1] // 2 :] for kind in kinds.values()]
        if not all(any(a in familiar for a, *_ in kind) for kind in shown):
            raise DataError(
                "no problem of a kind that is left to demonstrate has a familiar first factor",
                "raise data.rare_way.familiar_share, or hold out fewer problems",
            )
        return splits, shown, familiar

    def _demonstration(self, phase: RareWayPhaseSection, rng: random.Random) -> Demonstration:
        if rng.random() < phase.facts:
            a, b = self._first(rng), rng.choice(DIGITS)
            fact = f"{a}*{b}"
            return Demonstration(f"{fact}=?", f"{fact}={a * b}", str(a * b), "completion")
        while True:
            a, b, c = rng.choice(rng.choice(self._chosen[1]))
            if self._is_known(a, rng):
                break
        near = near_way(a, b, c) or "C"
        rare = rng.random() < (phase.rare or 0)
        way = near if phase.rare is None else "CR"[rare]
        answer = str(a * b * c)
        return Demonstration(f"{a}*{b}*{c}=?", working_out(way, a, b, c), answer, "completion")

    def _first(self, rng: random.Random) -> int:
        while True:
            a = rng.randint(self.section.low, self.section.high)
            if self._is_known(a, rng):
                return a

    def _is_known(self, a: int, rng: random.Random) -> bool:
        return a in self._chosen[2] or rng.random() < self.section.unfamiliar_probability
