"""Solutions that name their unknowns: x=3,y=4; p=5,q=2,p=7,q=2; (x,y)=(5,8),(8,5)."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from sage_cli.grading.mathematics.names import is_quantity, is_symbol
from sage_cli.grading.mathematics.normalise import closing
from sage_cli.grading.mathematics.structure import split

_INDEX = re.compile(r"_\{\d+\}$")
_COORDINATES = frozenset("xyz")

Assigned = list[tuple[str, str]]


@dataclass(frozen=True)
class Solutions:
    """The unknowns of a problem, at least two, and for each solution their values in that order."""

    names: tuple[str, ...]
    values: tuple[tuple[str, ...], ...]

    def in_order(self, names: Sequence[str]) -> Solutions:
        """The same solutions with the unknowns in the order of `names`, a permutation of them."""
        places = [self.names.index(name) for name in names]
        return Solutions(tuple(names), tuple(tuple(row[p] for p in places) for row in self.values))

    def unnamed(self) -> str:
        """A tuple for each solution, separated by commas."""
        return ",".join(f"({','.join(row)})" for row in self.values)

    def as_answer(self) -> str:
        """The meaning beside a gold that has no names.

        Coordinates come as x, y, z, other unknowns as they were written, and x_1, x_2 are values
        of one unknown.
        """
        if _COORDINATES.issuperset(self.names):
            return self.in_order(sorted(self.names)).unnamed()
        unknowns = {_INDEX.sub("", name) for name in self.names}
        if len(unknowns) == 1 and len(self.values) == 1:
            return ",".join(self.values[0])
        return self.unnamed()


def read_solutions(text: str) -> Solutions | None:
    """The solutions that the normalised `text` assigns, each to the same unknowns; else None.

    A name that occurs again begins the next solution, and so does "or".
    """
    if "," not in text:
        return None
    rows: list[dict[str, str]] = []
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
    names = tuple(rows[0])
    if len(names) < 2 or any(row.keys() != rows[0].keys() for row in rows):
        return None
    return Solutions(names, tuple(tuple(row[name] for name in names) for row in rows))


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
    """The members of a tuple in parentheses; none of anything else."""
    if text[:1] != "(" or text[-1] != ")" or closing(text, 0) != len(text) - 1:
        return []
    return split(text[1:-1], ",")
