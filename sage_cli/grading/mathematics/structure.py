"""The structure of an answer: a tuple, an interval, a set, a list, a union, a matrix."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache

from sage_cli.grading.mathematics.normalise import closing, unwrapped

_ENVIRONMENT = re.compile(
    r"\\begin ?\{([pb]?matrix|smallmatrix|array)\}(?:\{[lcr|]*\})?(.*)\\end ?\{\1\}", re.DOTALL
)
_INEQUALITY = re.compile(r"[<>≤≥]")
_MEMBER_OF = re.compile(r"(\\?[A-Za-z]+|\([A-Za-z]+(?:,[A-Za-z]+)+\))∈")
_MAGNITUDE = re.compile(r"\|(\\?[A-Za-z]+)\|")
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
        return self.kind not in ("set", "list", "either", "union")


@lru_cache(maxsize=8192)
def read_structure(text: str) -> Structure:
    """The outermost structure of the normalised `text`; its items are normalised texts too."""
    if "∪" in text and len(parts := split(text, "∪")) > 1:
        return Structure("union", tuple(parts))
    if "∨" in text and len(parts := split(text, "∨")) > 1:
        if all(_INEQUALITY.search(part) for part in parts):
            return Structure("union", tuple(parts))
        return Structure("either", _items(",".join(parts)))
    if (match := _MEMBER_OF.match(text)) and _INEQUALITY.search(text) is None:
        inside = read_structure(text[match.end() :])
        return Structure(inside.kind, inside.items, match[1])
    if "," in text and len(split(text, ",")) > 1:
        return Structure("list", _items(text))
    if _INEQUALITY.search(text) and (interval := _interval(text)):
        return interval
    if text.startswith(r"\begin") and (matrix := _ENVIRONMENT.fullmatch(text)):
        return _matrix(matrix[2])
    if bracketed := _bracketed(text):
        return bracketed
    if "±" in text or "∓" in text:
        return Structure("either", _items(text))
    return Structure("leaf", (text,))


def split(text: str, separator: str) -> list[str]:
    """`text` cut at the separators that stand in no bracket."""
    parts, depth, begin = [], 0, 0
    for place, character in enumerate(text):
        if character in "{([":
            depth += 1
        elif character in "})]":
            depth = max(0, depth - 1)
        elif character == separator and depth == 0:
            parts.append(text[begin:place].strip())
            begin = place + 1
    return [*parts, text[begin:].strip()]


def _items(text: str) -> tuple[str, ...]:
    items = []
    for item in split(text, ","):
        if "±" in item or "∓" in item:
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
    """The interval of `x>2` or `3<x≤4`; None for anything less simple."""
    parts = re.split(r"([<>≤≥])", text)
    texts, relations = [part.strip() for part in parts[::2]], parts[1::2]
    if len(relations) == 1:
        left, right = texts
        if _UNKNOWN.fullmatch(right) and not _UNKNOWN.fullmatch(left):
            left, right = right, left
            relations = ["<>≤≥"["><≥≤".index(relations[0])]]
        if magnitude := _MAGNITUDE.fullmatch(left):
            return _magnitude(magnitude[1], relations[0], right)
        if not _NAME.fullmatch(left):
            return None
        texts, relations = (
            (["-∞", left, right], ["<", relations[0]])
            if relations[0] in "<≤"
            else (["∞", left, right], [">", relations[0]])
        )
    if len(relations) != 2 or not _NAME.fullmatch(texts[1]):
        return None
    if all(relation in ">≥" for relation in relations):
        texts, relations = texts[::-1], ["<≤"[">≥".index(r)] for r in reversed(relations)]
    if not all(relation in "<≤" for relation in relations):
        return None
    kind = ("(" if relations[0] == "<" else "[") + (")" if relations[1] == "<" else "]")
    return Structure(kind, (texts[0], texts[2]), texts[1])


def _magnitude(name: str, relation: str, bound: str) -> Structure:
    """|x|<a as an interval around 0, |x|>a as what lies beyond it on both sides."""
    low = f"-{bound}" if re.fullmatch(r"[\w.π∞]+", bound) else f"-({bound})"
    if relation in "<≤":
        return Structure("()" if relation == "<" else "[]", (low, bound), name)
    below = "<≤"[">≥".index(relation)]
    return Structure("union", (f"{name}{below}{low}", f"{name}{relation}{bound}"))


def _matrix(body: str) -> Structure:
    rows = [row.split("&") for row in body.strip().removesuffix("\\\\").split("\\\\")]
    entries = tuple(entry.strip() for row in rows for entry in row)
    return Structure("matrix " + "x".join(str(len(row)) for row in rows), entries)
