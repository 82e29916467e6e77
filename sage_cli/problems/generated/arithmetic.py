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
from collections.abc import Iterator, Mapping
from itertools import accumulate, combinations_with_replacement
from typing import Self

from sage_cli.errors import DataError
from sage_cli.problems.generated.generator import Generator, Split
from sage_cli.problems.problem import Demonstration, Problem, problem_id
from sage_cli.settings.sections.data import DataSection
from sage_cli.settings.sections.generators import ArithmeticSection, PhaseSection

Operands = tuple[int, int]
BENCHMARK = "arithmetic"
_OPERANDS = re.compile(r"(\d+)\*(\d+)=\?")


def working_out(strategy: str, a: int, b: int) -> str:
    """The solution of a * b by `strategy` (S, R or D)."""
    if strategy == "D":
        return f"D:{a}*{b}={a * b}"
    left, right = (a, b) if strategy == "S" else (b, a)
    tens, units = right - right % 10, right % 10
    return (
        f"{strategy}:{left}*{tens}={left * tens};{left}*{units}={left * units};"
        f"{left * tens}+{left * units}={a * b}"
    )


class ArithmeticProblems:
    """Test, validation and training problems that never share a product, and demonstrations.

    A problem that is held out is held out in both orders of its factors, because `R` writes
    47*63 as `S` writes 63*47. Asking for more test problems keeps the ones there were.
    """

    def __init__(self, section: ArithmeticSection) -> None:
        self.section = section
        numbers = range(section.low, section.high + 1)
        pairs = list(combinations_with_replacement(numbers, 2))
        held_out = section.held_out + section.validation
        if held_out >= len(pairs):
            raise DataError(
                f"{held_out} held-out and validation problems are more than the {len(pairs)} "
                f"pairs of numbers from {section.low} to {section.high} leave room for",
                "lower data.arithmetic.held_out or data.arithmetic.validation",
            )
        rng = self._random("problems")
        rng.shuffle(pairs)
        ordered = [pair if rng.random() < 0.5 else pair[::-1] for pair in pairs]
        self._test = ordered[: section.held_out]
        self._validation = ordered[len(ordered) - section.validation :]
        self._unseen = {frozenset(pair) for pair in self._test + self._validation}
        self._familiar = sorted(rng.sample(numbers, round(section.familiar_share * len(numbers))))
        self._unfamiliar = sorted(set(numbers) - set(self._familiar))
        familiar_pairs = combinations_with_replacement(self._familiar, 2)
        if all(frozenset(pair) in self._unseen for pair in familiar_pairs):
            raise DataError(
                "no two familiar numbers are left to demonstrate: every pair is held out",
                "raise data.arithmetic.familiar_share or lower data.arithmetic.held_out",
            )

    def test(self) -> list[Problem]:
        """The held-out problems, operands uniform."""
        return [_problem(BENCHMARK, *pair) for pair in self._test]

    def validation(self) -> list[Problem]:
        """Problems to choose settings on, disjoint from the held-out ones."""
        return [_problem(f"{BENCHMARK}-dev", *pair) for pair in self._validation]

    def training(self) -> list[Problem]:
        """The other problems once, shuffled: operands uniform."""
        numbers = range(self.section.low, self.section.high + 1)
        pairs = [(a, b) for a in numbers for b in numbers if frozenset((a, b)) not in self._unseen]
        self._random("training").shuffle(pairs)
        return [_problem(f"{BENCHMARK}-train", *pair) for pair in pairs]

    def demonstrations(self, count: int) -> list[Demonstration]:
        """`count` worked problems, phase after phase: their order is part of the method."""
        rng = self._random("demonstrations")
        return [
            Demonstration(f"{a}*{b}=?", working_out(chosen, a, b), str(a * b), phase.loss)
            for phase, length in self._phases(count)
            for chosen in rng.choices(list(phase.mix), list(phase.mix.values()), k=length)
            for a, b in [self._operands(rng)]
        ]

    def _phases(self, count: int) -> Iterator[tuple[PhaseSection, int]]:
        shares = list(accumulate(phase.share for phase in self.section.phases))
        ends = [round(count * share / shares[-1]) for share in shares]
        for phase, start, end in zip(self.section.phases, [0, *ends], ends, strict=False):
            yield phase, end - start

    def _operands(self, rng: random.Random) -> Operands:
        while True:
            a, b = self._operand(rng), self._operand(rng)
            if frozenset((a, b)) not in self._unseen:
                return a, b

    def _operand(self, rng: random.Random) -> int:
        surprising = rng.random() < self.section.unfamiliar_probability
        return rng.choice(self._unfamiliar if surprising and self._unfamiliar else self._familiar)

    def _random(self, purpose: str) -> random.Random:
        return random.Random(f"{self.section.seed}:{purpose}")  # seeded by SHA-512 of the text


def _problem(benchmark: str, a: int, b: int) -> Problem:
    question, gold = f"{a}*{b}=?", str(a * b)
    id_, working = problem_id(benchmark, question, gold), working_out("S", a, b)
    return Problem(id_, benchmark, question, gold, working=working)


class Arithmetic(Generator):
    """The problems of the `tiny` preset; its demonstrations come in phases."""

    name = BENCHMARK
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
    section: ArithmeticSection

    @classmethod
    def of(cls, data: DataSection) -> Self:
        """As `data.arithmetic` sets it."""
        return cls(data.arithmetic)

    def problems(self, split: Split) -> list[Problem]:
        """Products of which no two splits share one."""
        problems: list[Problem] = getattr(ArithmeticProblems(self.section), split)()
        return problems

    def demonstrations(self, count: int, batch_size: int) -> list[Demonstration]:  # noqa: ARG002
        """Phase after phase."""
        return ArithmeticProblems(self.section).demonstrations(count)

    def right_texts(self, problem: Problem) -> Mapping[str, str]:
        """S, R and D, each with its products right."""
        operands = _OPERANDS.fullmatch(problem.question)
        if operands is None:
            raise DataError(f"'{problem.question}' is no product of two numbers, as 47*63=?")
        a, b = map(int, operands.groups())
        return {strategy: working_out(strategy, a, b) for strategy in self.modes}
