"""Statements about who tells the truth, and the assignments under which all of them fit.

A statement is a nested tuple in the notation of the published set (Xie et al. 2024,
arXiv 2410.23123): `("telling-truth", 1)` and `("lying", 1)` about person 1, and `not`, `and`, `or`,
`->`, `<=>` over statements. An assignment is one bool per person, True for a truth-teller.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
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
