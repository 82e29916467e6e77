"""Variants of a puzzle that look alike and ask for fresh reasoning (Xie et al. 2024, section 2).

`statement` and `leaf` change the logic and with it the solution; `names`, `roles`, `flip` and
`order` change the wording alone.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from dataclasses import replace
from itertools import permutations

from sage_cli.problems.generated.knights_knaves.puzzle import (
    CONNECTIVES,
    LEAVES,
    NOT,
    Puzzle,
    Roles,
    Statement,
    unique_solution,
)

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
    changes = [(person, other) for person in people for other in others]
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
