"""Regions of the real line, by whatever way they are written."""

from __future__ import annotations

import math
import re

from sage_cli.grading.mathematics.expression import constant
from sage_cli.grading.mathematics.structure import read_structure, split
from sage_cli.grading.mathematics.values import Value, close, is_real

Cut = tuple[float, int, Value]
"""A place before (0) or after (1) a number: (1,2] lies between the cuts after 1 and after 2."""
Region = list[tuple[Cut, Cut]]
_REALS = re.compile(
    r"(?:\\text ?\{)? ?(?:all )?real(?: ?numbers?|s)?(?: ?[a-z])? ?\}?|\\mathbb ?\{?R\}?|(?-i:R)",
    re.IGNORECASE,
)
_BUILDER = re.compile(r"\\\{([A-Za-z])(?:∈\\mathbb ?\{?R\}?)?(?:\||:)(.*)\\\}")
_OUTSIDE = re.compile(
    r"([A-Za-z])(?:≠|\\notin ?)([^≠]+)|\\mathbb ?\{?R\}?\\(?:setminus|backslash) ?(.+)"
    r"|(?:\\text ?\{)? ?(?:all )?real(?: numbers?|s)? except(?: for)? ?\}? ?(?:[a-z]=)?(.+)"
)
_CONDITION = re.compile(r"[<>≤≥≠∈]|\\notin")
_LOWEST, _HIGHEST = (-math.inf, 1, -math.inf), (math.inf, 0, math.inf)


def read_region(text: str) -> tuple[Region, set[str]] | None:
    """The part of the real line that the normalised `text` describes, and its variable's names.

    None where it isn't one, or has ends that are not constants.
    """
    if (builder := _BUILDER.fullmatch(text)) and builder[1] in builder[2]:
        return read_region(builder[2])
    if _REALS.fullmatch(text):
        return [(_LOWEST, _HIGHEST)], set()
    if outside := _OUTSIDE.fullmatch(text):
        members = outside[2] or outside[3] or outside[4]
        inside = read_region(members if members[0] in "([\\" else rf"\{{{members}\}}")
        # An unreadable inside gives None by `and`; its complement would be the whole line.
        return inside and (complement(inside[0]), {outside[1] or ""} - {""})
    conditions = split(text, ",")
    if len(conditions) > 1 and all(map(_CONDITION.search, conditions)):
        return _joined([read_region(condition) for condition in conditions], "list")
    shape = read_structure(text)
    if shape.kind == "set" or text == r"\emptyset":
        points = [_end(item) for item in shape.items if text != r"\emptyset"]
        cuts = [((*point[:1], 0, point[2]), (*point[:1], 1, point[2])) for point in points if point]
        return (_merged(cuts), set()) if len(cuts) == len(points) else None
    if shape.kind in ("union", "either", "⋀"):
        return _joined([read_region(item) for item in shape.items], shape.kind)
    if shape.kind[:1] not in ("(", "[") or len(shape.items) != 2:
        return None
    low, high = map(_end, shape.items)
    if low is None or high is None or low[0] > high[0]:
        return None
    cut = (low[0], int(shape.kind[0] == "("), low[2]), (high[0], int(shape.kind[1] == "]"), high[2])
    return [cut], {shape.name} - {""}


def same_region(gold: Region, answer: Region) -> bool:
    """Return True if two regions have the same ends."""
    ends = [[cut for interval in region for cut in interval] for region in (gold, answer)]
    return len(ends[0]) == len(ends[1]) and all(
        a[1] == b[1] and (a[0] == b[0] if math.isinf(a[0]) else close(a[2], b[2], None))
        for a, b in zip(*ends, strict=True)
    )


def _joined(
    parts: list[tuple[Region, set[str]] | None], kind: str
) -> tuple[Region, set[str]] | None:
    """Return a union, and of a list of conditions what lies between or, as x<1, x>3, beyond."""
    regions = [part[0] for part in parts if part]
    names: set[str] = set().union(*(part[1] for part in parts if part))
    if len(regions) < len(parts) or len(names) > 1:
        return None
    union = _merged([interval for region in regions for interval in region])
    outer = [interval for region in regions for interval in complement(region)]
    both = complement(_merged(outer))
    # "x < 1, x > 3" means "or", since no number satisfies both; "0 < x, x < 2" means "and", since
    # every number satisfies one. Where both readings are possible the text is ambiguous and not a
    # region.
    if kind == "list" and (len(names) != 1 or (both and complement(union))):
        return None
    return (both if kind == "⋀" else both or union if kind == "list" else union), names


def _end(text: str) -> Cut | None:
    if text.lstrip("+-") == "∞":
        return _LOWEST if text[0] == "-" else _HIGHEST
    value = constant(text)
    return None if value is None or not is_real(value) else (float(value), 0, value)


def _merged(region: Region) -> Region:
    """Return the intervals in order, those that touch as one, and without empty ones."""
    merged: Region = []
    for low, high in sorted(region, key=lambda interval: interval[0][:2]):
        # A cut has its side of the number in it, so (1, 2) and (2, 3) don't touch, while (1, 2] and
        # (2, 3) do.
        if merged and low[:2] <= merged[-1][1][:2]:
            merged[-1] = (merged[-1][0], max(merged[-1][1], high, key=lambda cut: cut[:2]))
        elif low[:2] < high[:2]:
            merged.append((low, high))
    return merged


def complement(region: Region) -> Region:
    """Return the rest of the real line."""
    # The complement has the same cuts with the intervals shifted by one, between the two
    # infinities; empty ones at the ends go in `_merged`.
    cuts = [_LOWEST, *(cut for interval in _merged(region) for cut in interval), _HIGHEST]
    return _merged(list(zip(cuts[::2], cuts[1::2], strict=True)))
