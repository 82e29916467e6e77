"""An order of texts in which each one shares little with those before it."""

from __future__ import annotations

import re
from collections.abc import Sequence

_WORD = re.compile(r"\w+|[^\w\s]")
TEXT = 4_000
"""Characters of a text that are compared."""


def dissimilar_first(texts: Sequence[str]) -> list[int]:
    """Return the places of `texts`: the first, then the one farthest from all before it, and so on.

    The distance of two texts is one less the Jaccard index of their pairs of adjacent words
    (Gonzalez 1985 for the greedy order). Equal texts come last.
    """
    if not texts:
        return []
    pairs = [_pairs(text) for text in texts]
    order, left = [0], list(range(1, len(texts)))
    nearest = {place: _distance(pairs[place], pairs[0]) for place in left}
    while left:
        farthest = max(left, key=lambda place: (nearest[place], -place))
        order.append(farthest)
        left.remove(farthest)
        for place in left:
            nearest[place] = min(nearest[place], _distance(pairs[place], pairs[farthest]))
    return order


def _pairs(text: str) -> frozenset[tuple[str, str]]:
    words = _WORD.findall(text[:TEXT])
    return frozenset(zip(["", *words], [*words, ""], strict=True))


def _distance(a: frozenset[tuple[str, str]], b: frozenset[tuple[str, str]]) -> float:
    return 1 - len(a & b) / len(a | b)
