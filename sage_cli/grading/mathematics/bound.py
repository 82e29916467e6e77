"""Bound variables, whose names say nothing: of sums, products, integrals, limits and sets."""

from __future__ import annotations

import re
from collections.abc import Iterator

from sage_cli.grading.mathematics.notation import closing

BINDER = re.compile(r"\\(?:sum|prod|int|lim|bigcup|bigcap)(?![a-z])|\\\{\\?[A-Za-z] ?(?:[|:∈])")
_INDEX = re.compile(
    r"\\(?:sum|prod|bigcup|bigcap)_\{([A-Za-z])(?:[=∈≥>≤<]|\\in(?![a-z]))"
    r"|\\lim_\{([A-Za-z]) ?\\(?:to|rightarrow)(?![a-z])"
    r"|\\\{([A-Za-z])(?=[|:∈])"
)
_INTEGRAL = re.compile(r"\\int_(?:\{[^{}]*\}|\w)\^(?:\{[^{}]*\}|\w|\\[a-z]+|∞)")
_DIFFERENTIAL = re.compile(r"(?<![A-Za-z\\])(?:[A-Za-z]*?)d([A-Za-z])(?![A-Za-z])")
_TOKEN = re.compile(r"\\text ?\{[^{}]*\}|\\[A-Za-z]+|[A-Za-z]")
_ENDS_TERM = frozenset("+-=,<>≤≥≠∨")
_FRESH = "kjmpqrstuvwxyzabcfghln"


def rename_bound(gold: str, answer: str) -> tuple[str, str]:
    r"""Return two normalised texts with the same names for their bound variables, in order.

    \sum_{k=1}^n k^2 and \sum_{j=1}^n j^2 become one. A name that also stands outside its sum stays:
    there it is another variable.
    """
    bound = [list(_bound(text)) for text in (gold, answer)]
    if not bound[0] or len(bound[0]) != len(bound[1]):
        return gold, answer
    # a fresh name stands in neither text, so that it can't meet a free variable of the other one
    used = {token for text in (gold, answer) for token in _TOKEN.findall(text)}
    fresh = [name for name in _FRESH if name not in used]
    if len(fresh) < len(bound[0]):
        return gold, answer
    names = [dict(zip(olds, fresh, strict=False)) for olds in bound]
    return _renamed(gold, names[0]), _renamed(answer, names[1])


def _renamed(text: str, names: dict[str, str]) -> str:
    return _TOKEN.sub(lambda m: names.get(m[0], m[0]), text)


def _bound(text: str) -> Iterator[str]:
    """Yield the names that occur within the scope of their binder alone, each once."""
    seen: set[str] = set()
    for match in _INDEX.finditer(text):
        name = match[1] or match[2] or match[3]
        if name not in seen and _only_within(text, name, match.start(), match.end()):
            seen.add(name)
            yield name
    for match in _INTEGRAL.finditer(text):
        end = _scope_end(text, match.end())
        for differential in _DIFFERENTIAL.finditer(text, match.end(), end):
            name = differential[1]
            # an inner limit may hold an outer variable, its own limits hold none
            if name not in seen and _only_within(text, name, match.end(), match.end()):
                seen.add(name)
                yield name


def _only_within(text: str, name: str, begin: int, body: int) -> bool:
    end = _scope_end(text, body)
    return name not in _TOKEN.findall(text[:begin]) + _TOKEN.findall(text[end:])


def _scope_end(text: str, begin: int) -> int:
    """Return where the term ends that begins behind an index or behind an integral's limits."""
    if text[:begin].endswith(("|", ":", "∈")) or text[begin : begin + 1] in ("|", ":", "∈"):
        opened = text.rfind(r"\{", 0, begin)
        end = closing(text, opened + 1)
        return len(text) if end < 0 else end
    # the index stands in braces: the term begins behind them and behind the upper limit
    position, depth = begin, 0
    behind_limits = not text[:begin].endswith(("=", "∈", "≥", ">", "≤", "<", "to", "row", "in"))
    while position < len(text):
        character = text[position]
        if character in "{([":
            depth += 1
        elif character in "})]":
            depth -= 1
            if depth < 0 and behind_limits:
                return position
            if depth < 0:
                depth, behind_limits = 0, True
        elif depth == 0 and behind_limits and character in _ENDS_TERM and position > begin:
            return position
        position += 1
    return len(text)
