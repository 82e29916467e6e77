"""Solutions of several unknowns, written as assignments or as tuples."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from sage_cli.grading.mathematics.names import is_quantity, is_symbol
from sage_cli.grading.mathematics.notation import closing
from sage_cli.grading.mathematics.structure import split

_INDEX = re.compile(r"_\{\d+\}$")
_COORDINATES = frozenset("xyz")
Assigned = list[tuple[str, str]]
Solutions = list[dict[str, str]]
"""The unknowns of a problem, at least two, with their values: the same in every solution."""


def unnamed(solutions: Solutions, names: Iterable[str]) -> str:
    """Return a tuple for each solution, with the values in the order of `names`."""
    return ",".join(f"({','.join(row[name] for name in names)})" for row in solutions)


def as_answer(solutions: Solutions) -> str:
    """Return the meaning beside a gold that has no names.

    Coordinates come as x, y, z, other unknowns as they were written, and x_1, x_2 are values
    of one unknown.
    """
    names = list(solutions[0])
    if _COORDINATES.issuperset(names):
        return unnamed(solutions, sorted(names))
    if len({_INDEX.sub("", name) for name in names}) == len(solutions) == 1:
        return ",".join(solutions[0].values())
    return unnamed(solutions, names)


def read_solutions(text: str) -> Solutions | None:
    """The solutions that the normalised `text` assigns, each to the same unknowns; else None.

    A name that occurs again begins the next solution, and so does "or".
    """
    if "," not in text:
        return None
    rows: Solutions = []
    tuple_names: list[str] = []
    for alternative in split(text, "∨"):
        rows.append({})
        for item in split(alternative, ","):
            assigned = _assigned(item, tuple_names)
            if not assigned:
                return None
            tuple_names = [name for name, _ in assigned] if len(assigned) > 1 else []
            for name, value in assigned:
                if name in rows[-1]:
                    rows.append({})
                rows[-1][name] = value
    unlike = any(row.keys() != rows[0].keys() for row in rows)
    return None if unlike or len(rows[0]) < 2 else rows


def _assigned(item: str, tuple_names: Sequence[str]) -> Assigned | None:
    """The assignments of x=3 or (x,y)=(3,4), or of (3,4) behind such a one of `tuple_names`."""
    *left, value = split(item, "=")
    if len(left) > 1 or not value:
        return None
    if left and is_quantity(left[0]):
        return [(left[0], value)]
    names, values = _members(left[0]) if left else tuple_names, _members(value)
    if not values or len(names) != len(values) or not all(map(is_symbol, names)):
        return None
    return list(zip(names, values, strict=True))


def _members(text: str) -> list[str]:
    """Return the members of a tuple in parentheses; none of anything else."""
    if text[:1] != "(" or text[-1] != ")" or closing(text, 0) != len(text) - 1:
        return []
    return split(text[1:-1], ",")
