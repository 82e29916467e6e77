"""A puzzle and its text, worded like the published set (Xie et al. 2024, arXiv 2410.23123)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any

Statement = tuple[Any, ...]
Assignment = tuple[bool, ...]

LEAVES = TRUTHFUL, LYING = "telling-truth", "lying"
NOT = "not"
CONNECTIVES = AND, OR, IMPLIES, IFF = "and", "or", "->", "<=>"


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
    """The only assignment that fits, or None where none or several do."""
    fitting = solutions(statements)
    first = next(fitting, None)
    return first if next(fitting, None) is None else None


SAYINGS = (
    "{name} asserted: \"{claim}\".",
    "{name} stated, \"{claim}\".",
    "{name} remarked, \"{claim}\".",
    "{name} noted, \"{claim}\".",
    "{name} commented, \"{claim}\".",
    "{name} said, \"{claim}.\"",
    "{name} was heard saying, \"{claim}\".",
    "{name} said that {claim}.",
    "{name} expressed that {claim}.",
    "{name} told you that {claim}.",
    "In a statement by {name}: \"{claim}\".",
    "In {name}'s words: \"{claim}\".",
    "According to {name}, \"{claim}\".",
    "As {name} put it, \"{claim}\".",
    "\"{claim}\" - {name}.",
    "\"{claim},\" {name} claimed.",
    "\"{claim},\" {name} mentioned.",
    "\"{claim},\" {name} declared.",
)  # fmt: skip
"""Forms of a quotation."""


@dataclass(frozen=True)
class Roles:
    """The names of truth-tellers and liars on this island."""

    truthful: str = "knight"
    lying: str = "knave"

    def one(self, truthful: bool) -> str:
        """The role with its article, as `a knight`."""
        word = self.truthful if truthful else self.lying
        return f"{'an' if word[0] in 'aeiou' else 'a'} {word}"


@dataclass(frozen=True)
class Puzzle:
    """Person i is `names[i]`, claims `statements[i]` and is quoted by `sayings[i]`.

    `order` is the order in which they are quoted.
    """

    names: tuple[str, ...]
    statements: tuple[Statement, ...]
    solution: Assignment
    sayings: tuple[str, ...]
    order: tuple[int, ...]
    roles: Roles = Roles()

    @property
    def question(self) -> str:
        """The whole puzzle as text."""
        truthful, lying = self.roles.truthful, self.roles.lying
        quotes = " ".join(self.quote(person, self.sayings[person]) for person in self.order)
        return (
            f"A very special island is inhabited only by {truthful}s and {lying}s. "
            f"{truthful.capitalize()}s always tell the truth, and {lying}s always lie. "
            f"You meet {len(self.names)} inhabitants: {listed(self.names)}. {quotes} "
            f"So who is {self.roles.one(True)} and who is {self.roles.one(False)}?"
        )

    @property
    def answer(self) -> str:
        """The solution as text: a role for every name."""
        named = zip(self.names, self.solution, strict=True)
        return listed([f"{name} is {self.roles.one(truthful)}" for name, truthful in named]) + "."

    def quote(self, person: int, saying: str) -> str:
        """The claim of `person`, quoted by `saying`."""
        claim = self._worded(self.statements[person])
        return saying.format(name=self.names[person], claim=claim)

    def _worded(self, statement: Statement) -> str:
        connective, *parts = statement
        if connective in LEAVES:
            return f"{self.names[parts[0]]} is {self.roles.one(connective == TRUTHFUL)}"
        if connective == NOT:
            return self._worded(parts[0]).replace(" is ", " is not ", 1)
        words = [self._worded(part) for part in parts]
        if connective == IMPLIES:
            return f"If {words[0]} then {words[1]}"
        return {AND: " and ", OR: " or ", IFF: " if and only if "}[connective].join(words)


def listed(parts: Sequence[str]) -> str:
    """`a, b, and c`; the published set writes `a, and b` too."""
    return ", ".join(parts[:-1]) + ", and " + parts[-1]
