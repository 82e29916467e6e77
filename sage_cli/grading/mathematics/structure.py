"""The structure of an answer: a tuple, an interval, a set, a list, a union, a matrix."""

from __future__ import annotations

import re
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache

from sage_cli.grading.mathematics.expression import constant
from sage_cli.grading.mathematics.notation import closing, unwrapped

_ENVIRONMENT = re.compile(
    r"([^=]*?)[\[(]?\\begin ?\{([pb]?matrix|smallmatrix|array)\}(?:\{[lcr|]*\})?(.*)"
    r"\\end ?\{\2\}[\])]?(\^(?:\{?T\}?|\{?\\top ?\}?))?",
    re.DOTALL,
)
_INEQUALITY = re.compile(r"[<>≤≥]")
_MEMBER_OF = re.compile(r"(\\?[A-Za-z]+|\([A-Za-z]+(?:,[A-Za-z]+)+\))∈")
_MAGNITUDE = re.compile(r"\|(\\?[A-Za-z]+)([+-][^|]+)?\|")
_NAME = re.compile(r"\\?[A-Za-z]+(?:_(?:\w|\{\w+\}))?(?:\(\w\))?")
_UNKNOWN = re.compile(rf"{_NAME.pattern}|{_MAGNITUDE.pattern}")


@dataclass(frozen=True)
class Structure:
    r"""`kind` is the pair of brackets, or `set`, `list`, `either`, `union`, `matrix 2x1`, `leaf`.

    `either` are alternatives, written with "or" or ±. `name` is the variable of an inequality,
    which is read as the interval that it describes.
    """

    kind: str
    items: tuple[str, ...]
    name: str = ""

    @property
    def ordered(self) -> bool:
        """Return True if the items' order counts."""
        if any("dots" in item for item in self.items):  # 1, 2, ..., n
            return True
        return self.kind not in ("set", "list", "either", "union", "⋀", "⋁")


@lru_cache(maxsize=8192)
def read_structure(text: str) -> Structure:
    """The outermost structure of the normalised `text`; its items are normalised texts too."""
    # The weakest separator is split first: a union's parts are lists or intervals, a list's items
    # tuples. Each part is read by another call.
    if "∪" in text and len(parts := split(text, "∪")) > 1:
        return Structure("union", tuple(parts))
    if "∨" in text and len(parts := split(text, "∨")) > 1:
        if all(_INEQUALITY.search(part) for part in parts):
            return Structure("union", tuple(parts))
        return Structure("either", _items(",".join(parts)))
    for operator in ("⋁", "⋀"):
        if operator in text and len(parts := split(text, operator)) > 1:
            return Structure(operator, tuple(parts))
    # x ∈ (1, 2] is read as its interval. With an inequality behind it, as n ∈ N, n > 2, the
    # membership is only a condition.
    if (match := _MEMBER_OF.match(text)) and _INEQUALITY.search(text) is None:
        inside = read_structure(text[match.end() :])
        return Structure(inside.kind, inside.items, match[1])
    if "," in text and len(split(text, ",")) > 1:
        return Structure("list", _items(text))
    if _INEQUALITY.search(text) and (interval := _interval(text)):
        return interval
    if r"\begin" in text and (matrix := _ENVIRONMENT.fullmatch(text)):
        rows = [row.split("&") for row in matrix[3].strip().removesuffix("\\\\").split("\\\\")]
        return _matrix(rows, matrix[1].removesuffix("*"), transposed=bool(matrix[4]))
    if text.startswith("[[") and (rows := _rows(text)):
        return _matrix(rows)
    # Two colons or more are a proportion, 1:2:3. A single one is a quotient, which expressions
    # read.
    if ":" in text and "=" not in text and len(parts := split(text, ":")) > 2:
        return Structure(":", tuple(parts))
    if bracketed := _bracketed(text):
        return bracketed
    if "±" in text or "∓" in text:
        return Structure("either", _items(text))
    return Structure("leaf", (text,))


def split(text: str, separator: str) -> list[str]:
    """`text` cut at the separators that stand in no bracket."""
    parts, depth, begin = [], 0, 0
    for position, character in enumerate(text):
        if character in "{([":
            depth += 1
        elif character in "})]":
            # Not below 0: half-open intervals such as ]0, 1] begin with a closing bracket.
            depth = max(0, depth - 1)
        elif character == separator and depth == 0:
            parts.append(text[begin:position].strip())
            begin = position + 1
    return [*parts, text[begin:].strip()]


def _items(text: str) -> tuple[str, ...]:
    items = []
    for item in split(text, ","):
        if "±" in item or "∓" in item:
            # The signs go together: of 1±2∓3 there are two values, not four.
            upper = item.replace("±", "+").replace("∓", "-")
            lower = item.replace("±", "-").replace("∓", "+")
            items += [upper.lstrip("+"), lower.lstrip("+")]
        else:
            items.append(unwrapped(item))
    return tuple(items)


def _bracketed(text: str) -> Structure | None:
    if text.startswith(r"\{") and text.endswith(r"\}") and closing(text, 1) == len(text) - 1:
        return Structure("set", _items(text[2:-2].strip()))
    if text[:1] in ("(", "[") and text[-1:] in (")", "]") and closing(text, 0) == len(text) - 1:
        items = tuple(split(text[1:-1], ","))
        if len(items) > 1:
            return Structure(text[0] + text[-1], items)
    return None


def _interval(text: str) -> Structure | None:
    """Return the interval of `x>2` or `3<x≤4`; None for anything less simple."""
    parts = re.split(r"([<>≤≥])", text)
    texts, relations = [part.strip() for part in parts[::2]], parts[1::2]
    if len(relations) == 1:
        left, right = texts
        if _UNKNOWN.fullmatch(right) and not _UNKNOWN.fullmatch(left):
            left, right = right, left
            # 2 < x is written as x > 2; the index finds the mirrored sign.
            relations = ["<>≤≥"["><≥≤".index(relations[0])]]
        if magnitude := _MAGNITUDE.fullmatch(left):
            return _magnitude(magnitude[1], magnitude[2] or "", relations[0], right)
        texts, relations = (
            (["-∞", left, right], ["<", relations[0]])
            if relations[0] in "<≤"
            else (["∞", left, right], [">", relations[0]])
        )
    if len(relations) != 2 or not _NAME.fullmatch(texts[1]):
        return None
    # 4 ≥ x > 3 is turned round. Mixed directions such as 1 < x > 0 don't give an interval.
    if all(relation in ">≥" for relation in relations):
        texts, relations = texts[::-1], ["<≤"[">≥".index(r)] for r in reversed(relations)]
    if not all(relation in "<≤" for relation in relations):
        return None
    kind = ("(" if relations[0] == "<" else "[") + (")" if relations[1] == "<" else "]")
    return Structure(kind, (texts[0], texts[2]), texts[1])


def _magnitude(name: str, shift: str, relation: str, bound: str) -> Structure:
    """|x|<a as an interval around 0, |x|>a as what lies beyond it on both sides."""
    low = f"-{bound}" if re.fullmatch(r"[\w.π∞]+", bound) else f"-({bound})"
    if shift:
        low, bound = f"{low}-(0{shift})", f"{bound}-(0{shift})"
    if relation in "<≤":
        return Structure("()" if relation == "<" else "[]", (low, bound), name)
    # |x| > a has two parts, both open or both closed: the sign of the lower one is mirrored.
    below = "<≤"[">≥".index(relation)]
    return Structure("union", (f"{name}{below}{low}", f"{name}{relation}{bound}"))


def _matrix(rows: list[list[str]], factor: str = "", *, transposed: bool = False) -> Structure:
    """Return the matrix, transposed and with its entries multiplied by a constant factor."""
    if transposed and len({len(row) for row in rows}) == 1:
        rows = [list(column) for column in zip(*rows, strict=True)]
    entries = [entry.strip() for row in rows for entry in row]
    if factor:
        factor = "-1" if factor == "-" else factor
        products = [f"({factor})({entry})" for entry in entries]
        values = map(constant, products)
        entries = [
            str(v) if isinstance(v, Fraction) else p for v, p in zip(values, products, strict=True)
        ]
    return Structure("matrix " + "x".join(str(len(row)) for row in rows), tuple(entries))


def _rows(text: str) -> list[list[str]]:
    """Return the rows of [[1,2],[3,4]], and none of anything else."""
    rows = [split(row[1:-1], ",") for row in split(text[1:-1], ",") if row[:1] + row[-1:] == "[]"]
    square = len({len(row) for row in rows}) == 1 and text.count("[") == len(rows) + 1
    return rows if square and text.endswith("]]") else []
