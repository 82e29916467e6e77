"""Knights and Knaves: puzzles worded like the published set (Xie et al. 2024, arXiv 2410.23123)."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice, product
from typing import Any, Self

from sage_cli.problems.problem import Generator, Problem, Split, problem_id, seeded
from sage_cli.settings.data import DataSection, KnightsKnavesSection

Statement = tuple[Any, ...]
Assignment = tuple[bool, ...]

LEAVES = TRUTHFUL, LYING = "telling-truth", "lying"
NOT = "not"
CONNECTIVES = AND, OR, IMPLIES, IFF = "and", "or", "->", "<=>"
SAYINGS = (
    '{name} asserted: "{claim}".',
    '{name} stated, "{claim}".',
    '{name} remarked, "{claim}".',
    '{name} noted, "{claim}".',
    '{name} commented, "{claim}".',
    '{name} said, "{claim}."',
    '{name} was heard saying, "{claim}".',
    "{name} said that {claim}.",
    "{name} expressed that {claim}.",
    "{name} told you that {claim}.",
    'In a statement by {name}: "{claim}".',
    'In {name}\'s words: "{claim}".',
    'According to {name}, "{claim}".',
    'As {name} put it, "{claim}".',
    '"{claim}" - {name}.',
    '"{claim}," {name} claimed.',
    '"{claim}," {name} mentioned.',
    '"{claim}," {name} declared.',
)
"""Forms of a quotation."""
BENCHMARK = "kk-generated"
_NAMES = (
    "Alice",
    "Amir",
    "Anna",
    "Arthur",
    "Beatrice",
    "Bruno",
    "Carla",
    "Cedric",
    "Clara",
    "Diego",
    "Dora",
    "Edgar",
    "Elena",
    "Farah",
    "Felix",
    "Frida",
    "George",
    "Hanna",
    "Hugo",
    "Ida",
    "Ivan",
    "Jasmin",
    "Jonas",
    "Karim",
    "Karla",
    "Leon",
    "Lina",
    "Marco",
    "Martha",
    "Nadia",
    "Nils",
    "Omar",
    "Paula",
    "Peter",
    "Quentin",
    "Rita",
    "Robert",
    "Rosa",
    "Simon",
    "Stella",
    "Tara",
    "Theo",
    "Ursula",
    "Vera",
    "Victor",
    "Walter",
    "Wanda",
    "Xenia",
    "Yusuf",
    "Zara",
)
_KINDS = ("leaf", NOT, *CONNECTIVES)


def holds(statement: Statement, assignment: Sequence[bool]) -> bool:
    """Return True if `statement` is true when `assignment` is."""
    connective, *parts = statement
    if connective == TRUTHFUL:
        return assignment[parts[0]]
    if connective == LYING:
        return not assignment[parts[0]]
    values = [holds(part, assignment) for part in parts]
    if connective == NOT:
        return not values[0]
    if connective == AND:
        return all(values)
    if connective == OR:
        return any(values)
    if connective == IMPLIES:
        return not values[0] or values[1]
    if connective == IFF:
        return values[0] == values[1]
    raise ValueError(f"unknown connective {connective!r}")


def solutions(statements: Sequence[Statement]) -> Iterator[Assignment]:
    """Assignments under which exactly the truth-tellers' statements hold; person i says the i-th.

    Tries all of them: 256 for eight people.
    """
    for assignment in product((True, False), repeat=len(statements)):
        if all(
            holds(statement, assignment) == truthful
            for statement, truthful in zip(statements, assignment, strict=True)
        ):
            yield assignment


def unique_solution(statements: Sequence[Statement]) -> Assignment | None:
    """Return the only assignment that fits, or None where none or several do."""
    fitting = solutions(statements)
    first = next(fitting, None)
    return first if next(fitting, None) is None else None


def role(truthful: bool) -> str:
    """Return a role with its article."""
    return "a knight" if truthful else "a knave"


@dataclass(frozen=True)
class Puzzle:
    """Person i is `names[i]`, claims `statements[i]` and is quoted by `sayings[i]`."""

    names: tuple[str, ...]
    statements: tuple[Statement, ...]
    solution: Assignment
    sayings: tuple[str, ...]

    @property
    def question(self) -> str:
        """The whole puzzle as text."""
        quotes = " ".join(self.quote(person, saying) for person, saying in enumerate(self.sayings))
        return (
            "A very special island is inhabited only by knights and knaves. "
            "Knights always tell the truth, and knaves always lie. "
            f"You meet {len(self.names)} inhabitants: {listed(self.names)}. {quotes} "
            "So who is a knight and who is a knave?"
        )

    @property
    def answer(self) -> str:
        """The solution as text: a role for every name."""
        roles = zip(self.names, self.solution, strict=True)
        return listed([f"{name} is {role(truthful)}" for name, truthful in roles]) + "."

    def quote(self, person: int, saying: str) -> str:
        """Return the claim of `person`, quoted by `saying`."""
        claim = self._worded(self.statements[person])
        return saying.format(name=self.names[person], claim=claim)

    def _worded(self, statement: Statement) -> str:
        connective, *parts = statement
        if connective in LEAVES:
            return f"{self.names[parts[0]]} is {role(connective == TRUTHFUL)}"
        if connective == NOT:
            return self._worded(parts[0]).replace(" is ", " is not ", 1)
        words = [self._worded(part) for part in parts]
        if connective == IMPLIES:
            return f"If {words[0]} then {words[1]}"
        return {AND: " and ", OR: " or ", IFF: " if and only if "}[connective].join(words)


def listed(parts: Sequence[str]) -> str:
    """`a, b, and c`; the published set writes `a, and b` too."""
    return ", ".join(parts[:-1]) + ", and " + parts[-1]


def draw_puzzle(people: int, rng: random.Random) -> Puzzle:
    """Return a puzzle about `people` inhabitants that has exactly one solution."""
    while True:
        statements = tuple(draw_statement(people, rng) for _ in range(people))
        solution = unique_solution(statements)
        if solution is not None:
            names = tuple(rng.sample(_NAMES, people))
            sayings = tuple(rng.choices(SAYINGS, k=people))
            return Puzzle(names, statements, solution, sayings)


def draw_statement(people: int, rng: random.Random) -> Statement:
    """Return an assertion about a person, its negation, or two with a connective between.

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
        puzzle = draw_puzzle(people, rng)
        if puzzle.statements in seen:
            continue
        seen.add(puzzle.statements)
        yield _problem(puzzle)


def _problem(puzzle: Puzzle) -> Problem:
    question, gold = puzzle.question, puzzle.answer
    details = {
        "n_people": len(puzzle.names),
        "names": list(puzzle.names),
        "solution": list(puzzle.solution),
        "statements": repr(puzzle.statements),
    }
    return Problem(problem_id(BENCHMARK, question, gold), BENCHMARK, question, gold, details)


class KnightsKnaves(Generator):
    """Puzzles worded like the published set `kk`, as many as set."""

    name = BENCHMARK
    title = "Knights and Knaves"
    settings = KnightsKnavesSection
    judge = "roles"
    version = 2
    section: KnightsKnavesSection

    @classmethod
    def from_data(cls, data: DataSection) -> Self:
        """As `data.knights_knaves` sets it."""
        return cls(data.knights_knaves)

    def problems(self, split: Split) -> list[Problem]:  # noqa: ARG002
        """Return `per_size` problems for each number of people."""
        return [
            problem
            for people in self.section.people
            for problem in islice(_problems(people, self.section), self.section.per_size)
        ]
