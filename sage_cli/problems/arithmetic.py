"""Two-digit multiplication with several strategies: the problems of the `tiny` preset.

Each demonstration names its strategy first, so that the model's choice can be read back:
`S` splits the second factor (`S:47*60=2820;47*3=141;2820+141=2961`), `R` swaps the factors and
splits the first (`R:63*40=2520;63*7=441;2520+441=2961`), `D` writes the product directly
(`D:47*63=2961`), which a small model can only guess. Only some of the numbers are familiar from
the demonstrations, so that some problems are hard.

Random choices depend on `ArithmeticSection.seed` and their purpose, never on the process.
"""

from __future__ import annotations

import random
import re
from collections.abc import Iterator, Sequence
from functools import cached_property
from itertools import accumulate, combinations_with_replacement
from typing import Self

from sage_cli.errors import DataError
from sage_cli.problems.problem import (
    SPLITS,
    Demonstration,
    Generator,
    Problem,
    Split,
    problem_id,
    seeded,
)
from sage_cli.settings.data import ArithmeticSection, DataSection, PhaseSection

Operands = tuple[int, int]
_OPERANDS = re.compile(r"(\d+)\*(\d+)=\?")
_WORKING = re.compile(
    r"(?:<[^<>]*>)?[SR]:(\d+)\*(\d+)=(\d+);\1\*(\d+)=(\d+);\3\+\5=(\d+)(?:<.*)?", re.DOTALL
)
"""A factor times both parts of the other, added up."""


def working_out(strategy: str, a: int, b: int) -> str:
    """Return the solution of a * b by `strategy` (S, R or D)."""
    if strategy == "D":
        return f"D:{a}*{b}={a * b}"
    left, right = (a, b) if strategy == "S" else (b, a)
    tens, units = right - right % 10, right % 10
    return (
        f"{strategy}:{left}*{tens}={left * tens};{left}*{units}={left * units};"
        f"{left * tens}+{left * units}={a * b}"
    )


class Arithmetic(Generator):
    """The problems of the `tiny` preset; no two splits share a product, demonstrations have phases.

    A problem that is held out is held out in both orders of its factors, because `R` writes
    47*63 as `S` writes 63*47. Asking for more test problems keeps the ones there were.
    """

    name = "arithmetic"
    title = "Two-digit products"
    splits = ("test", "validation", "training")
    settings = ArithmeticSection
    modes = {strategy: f"{strategy}:" for strategy in "SRD"}  # noqa: RUF012
    mode_words = {  # noqa: RUF012
        "S": "splits the second factor",
        "R": "swaps the factors and splits the first",
        "D": "writes the product in one step",
    }
    guesses = frozenset("D")
    decisive = {  # noqa: RUF012
        "test": ("low", "high", "held_out", "seed"),
        "validation": ("low", "high", "validation", "seed"),
        "training": ("low", "high", "held_out", "validation", "seed"),
    }
    section: ArithmeticSection

    @classmethod
    def from_data(cls, data: DataSection) -> Self:
        """As `data.arithmetic` sets it."""
        return cls(data.arithmetic)

    def problems(self, split: Split) -> list[Problem]:
        """Return problems with uniform operands: held-out ones, or all others, shuffled."""
        pairs = self._held_out.get(split)
        if pairs is None:
            numbers = self._numbers
            pairs = [
                (a, b) for a in numbers for b in numbers if frozenset((a, b)) not in self._unseen
            ]
            seeded(self.section.seed, "training").shuffle(pairs)
        return [_problem(self.name + SPLITS[split], *pair) for pair in pairs]

    def demonstrations(self, count: int, batch_size: int) -> list[Demonstration]:  # noqa: ARG002
        """Phase after phase: their order is part of the method."""
        rng = seeded(self.section.seed, "demonstrations")
        return [
            Demonstration(f"{a}*{b}=?", working_out(chosen, a, b), str(a * b), phase.loss)
            for phase, length in _stretches(self.section.phases, count)
            for chosen in rng.choices(list(phase.mix), list(phase.mix.values()), k=length)
            for a, b in [self._operands(rng)]
        ]

    @staticmethod
    def working_is_right(question: str, completion: str) -> bool:
        """Return True if both parts of a factor are multiplied and added up without an error."""
        asked, shown = _OPERANDS.fullmatch(question), _WORKING.fullmatch(completion)
        if asked is None or shown is None:
            return False
        factor, part, product, rest, rest_product, total = map(int, shown.groups())
        true = (factor * part, factor * rest, factor * (part + rest))
        asked_factors = sorted(map(int, asked.groups()))
        shown_factors = sorted((factor, part + rest))
        return shown_factors == asked_factors and true == (product, rest_product, total)

    @property
    def _numbers(self) -> range:
        return range(self.section.low, self.section.high + 1)

    @cached_property
    def _chosen(self) -> tuple[dict[Split, list[Operands]], list[int]]:
        """The pairs that are held out, and the familiar numbers. Raises DataError."""
        section, numbers = self.section, self._numbers
        pairs = list(combinations_with_replacement(numbers, 2))
        held_out = section.held_out + section.validation
        if held_out >= len(pairs):
            raise DataError(
                f"{held_out} held-out and validation problems are too many for the "
                f"{len(pairs)} pairs of numbers from {section.low} to {section.high}",
                "lower data.arithmetic.held_out or data.arithmetic.validation",
            )
        rng = seeded(section.seed, "problems")
        rng.shuffle(pairs)
        ordered = [pair if rng.random() < 0.5 else pair[::-1] for pair in pairs]
        test, validation = ordered[: section.held_out], ordered[len(pairs) - section.validation :]
        unseen = {frozenset(pair) for pair in test + validation}
        familiar = sorted(rng.sample(numbers, round(section.familiar_share * len(numbers))))
        if all(frozenset(pair) in unseen for pair in combinations_with_replacement(familiar, 2)):
            raise DataError(
                "no two familiar numbers are left to demonstrate: every pair is held out",
                "raise data.arithmetic.familiar_share or lower data.arithmetic.held_out",
            )
        return {"test": test, "validation": validation}, familiar

    @property
    def _held_out(self) -> dict[Split, list[Operands]]:
        return self._chosen[0]

    @cached_property
    def _unseen(self) -> set[frozenset[int]]:
        return {frozenset(pair) for pairs in self._held_out.values() for pair in pairs}

    @cached_property
    def _unfamiliar(self) -> list[int]:
        return sorted(set(self._numbers) - set(self._chosen[1]))

    def _operands(self, rng: random.Random) -> Operands:
        while True:
            a, b = self._operand(rng), self._operand(rng)
            if frozenset((a, b)) not in self._unseen:
                return a, b

    def _operand(self, rng: random.Random) -> int:
        surprising = rng.random() < self.section.unfamiliar_probability
        return rng.choice(self._unfamiliar if surprising and self._unfamiliar else self._chosen[1])


def _stretches(phases: Sequence[PhaseSection], count: int) -> Iterator[tuple[PhaseSection, int]]:
    """Yield each phase with its number of `count` demonstrations."""
    shares = list(accumulate(phase.share for phase in phases))
    ends: list[int] = [round(count * share / shares[-1]) for share in shares]
    for phase, start, end in zip(phases, [0, *ends], ends, strict=False):
        yield phase, end - start


def _problem(benchmark: str, a: int, b: int) -> Problem:
    question, gold = f"{a}*{b}=?", str(a * b)
    id_, working = problem_id(benchmark, question, gold), working_out("S", a, b)
    return Problem(id_, benchmark, question, gold, working=working)
