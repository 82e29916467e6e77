"""Knights and Knaves: puzzles, their text, and variants that look alike.

Puzzles are worded like the published set (Xie et al. 2024, arXiv 2410.23123). Of the variants
(their section 2) `statement` and `leaf` change the logic and with it the solution; `names`,
`roles`, `flip` and `order` change the wording alone.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import islice, permutations, product
from typing import Any, Self

from sage_cli.problems.generator import Generator, Split, seeded
from sage_cli.problems.problem import Problem, problem_id
from sage_cli.settings.sections.data import DataSection, KnightsKnavesSection

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
    """Return the only assignment that fits, or None where none or several do."""
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
        """Return the role with its article, as `a knight`."""
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
        roles = zip(self.names, self.solution, strict=True)
        return listed([f"{name} is {self.roles.one(truthful)}" for name, truthful in roles]) + "."

    def quote(self, person: int, saying: str) -> str:
        """Return the claim of `person`, quoted by `saying`."""
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


UNCOMMON_NAMES = (
    "Aldwyn", "Briseis", "Caradoc", "Damaris", "Eudora", "Fenwick", "Ghislaine", "Hespera",
    "Isolde", "Jocasta", "Kestrel", "Leocadia", "Merrick", "Nerissa", "Octavian", "Peregrine",
)  # fmt: skip
OTHER_ROLES = (
    Roles("saint", "sinner"), Roles("friend", "traitor"), Roles("angel", "devil"),
    Roles("sage", "fool"), Roles("altruist", "egoist"), Roles("pioneer", "laggard"),
)  # fmt: skip


def perturb(puzzle: Puzzle, variant: str, rng: random.Random) -> Puzzle | None:
    """`puzzle` changed in one way, still with exactly one solution; None where it can't be."""
    return _VARIANTS[variant](puzzle, rng)


def _statement(puzzle: Puzzle, rng: random.Random) -> Puzzle | None:
    people = range(len(puzzle.names))
    leaves = [(truth, person) for truth in LEAVES for person in people]
    pairs = list(permutations(leaves, 2))
    others: list[Statement] = [
        *leaves,
        *((NOT, leaf) for leaf in leaves),
        *((kind, *pair) for kind in CONNECTIVES for pair in pairs),
    ]
    changes = [(person, statement) for person in people for statement in others]
    rng.shuffle(changes)
    return _first_with_another_solution(puzzle, changes)


def _leaf(puzzle: Puzzle, rng: random.Random) -> Puzzle | None:
    people = range(len(puzzle.names))
    leaves = [(truth, person) for truth in LEAVES for person in people]
    changes = [
        (person, changed)
        for person in people
        for leaf in leaves
        for changed in _with_leaf(puzzle.statements[person], leaf)
    ]
    rng.shuffle(changes)
    return _first_with_another_solution(puzzle, changes)


def _with_leaf(statement: Statement, leaf: Statement) -> Iterator[Statement]:
    """`statement` with one of its leaves replaced, each in turn; never two of the same."""
    connective, *parts = statement
    if connective in LEAVES:
        yield leaf
        return
    for position, part in enumerate(parts):
        others = parts[:position] + parts[position + 1 :]
        for changed in _with_leaf(part, leaf):
            if changed not in others:
                yield connective, *parts[:position], changed, *parts[position + 1 :]


def _first_with_another_solution(
    puzzle: Puzzle, changes: list[tuple[int, Statement]]
) -> Puzzle | None:
    for person, statement in changes:
        statements = (*puzzle.statements[:person], statement, *puzzle.statements[person + 1 :])
        solution = unique_solution(statements)
        if solution is not None and solution != puzzle.solution:
            return replace(puzzle, statements=statements, solution=solution)
    return None


def _names(puzzle: Puzzle, rng: random.Random) -> Puzzle:
    return replace(puzzle, names=tuple(rng.sample(UNCOMMON_NAMES, len(puzzle.names))))


def _roles(puzzle: Puzzle, rng: random.Random) -> Puzzle:
    return replace(puzzle, roles=rng.choice(OTHER_ROLES))


def _flip(puzzle: Puzzle, _: random.Random) -> Puzzle:
    """Knaves tell the truth and knights lie."""
    return replace(puzzle, roles=Roles(puzzle.roles.lying, puzzle.roles.truthful))


def _order(puzzle: Puzzle, rng: random.Random) -> Puzzle:
    order = list(puzzle.order)
    while tuple(order) == puzzle.order:
        rng.shuffle(order)
    return replace(puzzle, order=tuple(order))


_VARIANTS: dict[str, Callable[[Puzzle, random.Random], Puzzle | None]] = {
    "statement": _statement,
    "leaf": _leaf,
    "names": _names,
    "roles": _roles,
    "flip": _flip,
    "order": _order,
}


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
    """Return a puzzle about `people` inhabitants that has exactly one solution."""
    while True:
        statements = tuple(draw_statement(people, rng) for _ in range(people))
        solution = unique_solution(statements)
        if solution is not None:
            names = tuple(rng.sample(NAMES, people))
            sayings = tuple(rng.choices(SAYINGS, k=people))
            return Puzzle(names, statements, solution, sayings, tuple(range(people)))


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
    def from_data(cls, data: DataSection) -> Self:
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
