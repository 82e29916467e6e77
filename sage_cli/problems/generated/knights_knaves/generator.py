"""Knights and Knaves as a generator."""

from __future__ import annotations

import random
from collections.abc import Iterator
from itertools import islice
from typing import Self

from sage_cli.problems.generated.generator import Generator, Split, seeded
from sage_cli.problems.generated.knights_knaves.perturb import perturb
from sage_cli.problems.generated.knights_knaves.puzzle import (
    CONNECTIVES,
    LEAVES,
    NOT,
    SAYINGS,
    Puzzle,
    Statement,
    unique_solution,
)
from sage_cli.problems.problem import Problem, problem_id
from sage_cli.settings.sections.data import DataSection
from sage_cli.settings.sections.generators import KnightsKnavesSection

BENCHMARK = "kk-generated"
NAMES = (
    "Alice", "Amir", "Anna", "Arthur", "Beatrice", "Bruno", "Carla", "Cedric", "Clara", "Diego",
    "Dora", "Edgar", "Elena", "Farah", "Felix", "Frida", "George", "Hanna", "Hugo", "Ida", "Ivan",
    "Jasmin", "Jonas", "Karim", "Karla", "Leon", "Lina", "Marco", "Martha", "Nadia", "Nils",
    "Omar", "Paula", "Peter", "Quentin", "Rita", "Robert", "Rosa", "Simon", "Stella", "Tara",
    "Theo", "Ursula", "Vera", "Victor", "Walter", "Wanda", "Xenia", "Yusuf", "Zara",
)  # fmt: skip
_KINDS = ("leaf", NOT, *CONNECTIVES)


def draw_puzzle(people: int, rng: random.Random) -> Puzzle:
    """A puzzle about `people` inhabitants that has exactly one solution."""
    while True:
        statements = tuple(draw_statement(people, rng) for _ in range(people))
        solution = unique_solution(statements)
        if solution is not None:
            names = tuple(rng.sample(NAMES, people))
            sayings = tuple(rng.choices(SAYINGS, k=people))
            return Puzzle(names, statements, solution, sayings, tuple(range(people)))


def draw_statement(people: int, rng: random.Random) -> Statement:
    """An assertion about a person, its negation, or two with a connective between.

    The two are never the same, as in the published set: "X if and only if X" says nothing.
    """
    kind = rng.choice(_KINDS)
    leaves = [(truth, person) for truth in LEAVES for person in range(people)]
    if kind == "leaf":
        return rng.choice(leaves)
    if kind == NOT:
        return NOT, rng.choice(leaves)
    left, right = rng.sample(leaves, 2)
    return kind, left, right


def _problems(people: int, section: KnightsKnavesSection) -> Iterator[Problem]:
    rng = seeded(section.seed, people)
    seen = set()
    while True:
        original = draw_puzzle(people, rng)
        if original.statements in seen:
            continue
        seen.add(original.statements)
        if section.variant == "none":
            yield _problem(original, {})
            continue
        perturbed = perturb(original, section.variant, rng)
        if perturbed is not None:
            made_from = problem_id(BENCHMARK, original.question, original.answer)
            yield _problem(perturbed, {"variant": section.variant, "made_from": made_from})


def _problem(puzzle: Puzzle, meta: dict[str, str]) -> Problem:
    question, gold = puzzle.question, puzzle.answer
    details = {
        "n_people": len(puzzle.names),
        "names": list(puzzle.names),
        "solution": list(puzzle.solution),
        "statements": repr(puzzle.statements),
    }
    return Problem(problem_id(BENCHMARK, question, gold), BENCHMARK, question, gold, details | meta)


class KnightsKnaves(Generator):
    """Puzzles worded like the published set `kk`, as many as set, perturbed if set."""

    name = BENCHMARK
    title = "Knights and Knaves"
    settings = KnightsKnavesSection
    judge = "roles"
    version = 2
    section: KnightsKnavesSection

    @classmethod
    def of(cls, data: DataSection) -> Self:
        """As `data.knights_knaves` sets it."""
        return cls(data.knights_knaves)

    def problems(self, split: Split) -> list[Problem]:  # noqa: ARG002
        """`per_size` problems for each number of people, perturbed when the settings say so.

        A perturbed problem's meta names the problem that it was made from.
        """
        return [
            problem
            for people in self.section.people
            for problem in islice(_problems(people, self.section), self.section.per_size)
        ]
