"""Functions by cases, compared by their values at many points."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import pairwise

from sage_cli.grading.mathematics.expression import Evaluate, number_at, point_of, read_expression
from sage_cli.grading.mathematics.names import is_name
from sage_cli.grading.mathematics.regions import Region, complement, read_region
from sage_cli.grading.mathematics.structure import split
from sage_cli.grading.mathematics.values import LOCK, Arithmetic, Value, close

_CASES = re.compile(
    r"(?:\\?\{ ?)?\\begin ?\{[dr]?cases\}(.*?)\\end ?\{[dr]?cases\}\}?[ .]*"
    r"|\\\{ ?\\begin ?\{array\}(?:\{[lcr|@{} ]*\})?(.*?)\\end ?\{array\}[ .]*",
    re.DOTALL,
)
"""An array has a brace before it, or is a matrix."""
_IF = re.compile(
    r",? ?(?:\\text ?\{ ?,? ?)?(?<![A-Za-z])(?:if|for|when|where)(?![A-Za-z]) ?:? ?\}? ?"
)
_ELSE = re.compile(r",? ?(?:\\text ?\{ ?)?(?:if |for )?(?:otherwise|else(?:where)?)[ .]*\}?\.?")
_POINT = re.compile(r"([A-Za-z])=([^=<>≤≥,]+)")
_WITHIN, _BEYOND = (0.137, 0.29, 0.5, 0.711, 0.93), (0.37, 1.9, 7.3, 61.0)
"""Where values are compared: parts of the way between two ends, and distances beyond the last."""
Parts = tuple[str, list[tuple[Region, Evaluate]], frozenset[str]]
"""The variable, where each expression holds, and all symbols."""


@dataclass(frozen=True)
class Piece:
    """An expression and its condition, both normalised; "" is the condition `otherwise`."""

    value: str
    condition: str


def read_pieces(text: str) -> list[Piece] | None:
    r"""Return the pieces of a function by cases, of a \begin{cases} or of `x if x>0, ...`."""
    name, equals, rest = text.partition("=")
    if equals and is_name(name) and (r"\begin" in rest or "if" in rest):
        text = rest
    if cases := _CASES.fullmatch(text):
        rows = [row for row in re.split(r"\\\\", cases[1] or cases[2]) if row.strip()]
        cells = [row.split("&") for row in rows]
        if any(len(row) != 2 for row in cells):
            return None
    else:
        cells = [_IF.split(row, maxsplit=1) for row in _with_condition(text)]
    if not cells or any(len(row) != 2 for row in cells):
        return None
    return [Piece(value.strip(" ,"), _condition(condition)) for value, condition in cells]


def same_pieces(gold: Sequence[Piece], answer: Sequence[Piece] | str) -> bool | None:
    """Return True if an answer, by cases or not, has the gold's value everywhere.

    None where a condition is not part of the real line.
    """
    of_gold = _parts(gold)
    of_answer = _parts([Piece(answer, "")] if isinstance(answer, str) else answer)
    if of_gold is None or of_answer is None:
        return None
    name, pieces, symbols = of_gold
    if of_answer[0] not in ("", name):
        return False
    others = point_of(symbols | of_answer[2] - {name}, 0)
    for point in _points([region for region, _ in [*pieces, *of_answer[1]]]):
        value, other = (
            _value(side, {**others, name: point}, point) for side in (pieces, of_answer[1])
        )
        if (value is None) != (other is None) or (
            value is not None and not close(value, other, None)
        ):
            return False
    return True


def _points(regions: Sequence[Region]) -> Iterator[Value]:
    """Yield the ends of all intervals, several numbers between each two, and others beyond."""
    ends = {
        cut[0]: cut[2]
        for region in regions
        for interval in region
        for cut in interval
        if not math.isinf(cut[0])
    }
    places = sorted(ends) or [0.0]
    yield from ends.values()
    for low, high in pairwise(places):
        for part in _WITHIN:
            yield Fraction(low) + (Fraction(high) - Fraction(low)) * Fraction(part)
    for distance in _BEYOND:
        yield Fraction(places[-1]) + Fraction(distance)
        yield Fraction(places[0]) - Fraction(distance)


def _parts(pieces: Sequence[Piece]) -> Parts | None:
    read = [read_expression(piece.value) for piece in pieces]
    regions = [read_region(_as_region(piece.condition)) for piece in pieces if piece.condition]
    if None in read or None in regions or len(regions) < len(pieces) - 1:
        return None
    names = {name for region in regions if region for name in region[1]}
    names |= {point[1] for piece in pieces if (point := _POINT.fullmatch(piece.condition))}
    symbols = frozenset(name for expression in read if expression for name in expression[1])
    if len(names) > 1:
        return None
    taken = [interval for region in regions if region for interval in region[0]]
    known = iter(regions)
    holds: list[tuple[Region, Evaluate]] = []
    for piece, expression in zip(pieces, read, strict=True):
        region = next(known) if piece.condition else (complement(taken), set[str]())
        if region and expression:
            holds.append((region[0], expression[0]))
    name = next(iter(names), "")
    return name, holds, symbols | ({name} if name else set())


def _value(
    regions: list[tuple[Region, Evaluate]], symbols: dict[str, Value], point: Value
) -> Value | None:
    place = float(point)
    for region, evaluate in regions:
        if any(low[:2] <= (place, 0) and (place, 1) <= high[:2] for low, high in region):
            with LOCK:
                at = Arithmetic(40, symbols)
                at.symbols.update({n: v for n, v in symbols.items() if isinstance(v, Fraction)})
                return number_at(evaluate, at)
    return None


def _with_condition(text: str) -> list[str]:
    """Return the parts of an enumeration of which each has its condition: `x if x>0, -x if x<0`."""
    parts = split(text, ",") if "if" in text or "for" in text else []
    return parts if len(parts) > 1 and all(_IF.search(part) for part in parts[:-1]) else []


def _condition(text: str) -> str:
    text = text.strip(" ,.")
    return "" if _ELSE.fullmatch(text) else _IF.sub("", text, count=1).strip(" ,.")


def _as_region(condition: str) -> str:
    point = _POINT.fullmatch(condition)
    return rf"{point[1]}∈\{{{point[2]}\}}" if point else condition
