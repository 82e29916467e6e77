"""Which texts name a value: symbols, quantities, letters."""

from __future__ import annotations

import re

_SYMBOL = re.compile(r"(?:\\[a-z]+ )?\\?[A-Za-z]+(?:_(?:\w|\{\w+\})|\^\{-1\})?'*(?:\([\w,.+-]*\))?")
_ARGUMENT = re.compile(r"_(?:\w|\{[^{}]*\})|(?<=[A-Za-z])\((?:[-+]?[\w.]++,?)+\)")
_INSIDE = re.compile(r"_(?:\w|\{[^{}]*\})|(?<=[A-Za-z])\([^()]*\)")
_QUANTITY = re.compile(r"(?:\\(?!sqrt)[A-Za-z]++|[A-Za-z{}|:/' ])+")
_FORMATTING = re.compile(
    r"\\(?:begin|end) ?\{[a-z]*\}|\\(?:frac|sqrt|[a-z]*(?:sin|cos|tan|cot|sec|csc)h?|ln|log|exp|"
    r"cis|max|min|binom|text|dot|ddot|vec|hat|bar|overline|langle|rangle)(?![A-Za-z])"
)
_LETTER = re.compile(r"\\[A-Za-z]+|[A-Za-z]")
_NEGATED = re.compile(r"\\(?:not|neg|lnot)(?![A-Za-z])|(?<![A-Za-z])(?:not|never)(?![A-Za-z])")
_NO_NAME = frozenset("<>≤≥≠≈,∨±%")


def is_symbol(text: str) -> bool:
    """Return True if `text` is one name, as x, x_1, f(3), AB, and no expression of several."""
    return _SYMBOL.fullmatch(text) is not None and not _NEGATED.search(text)


def is_quantity(text: str) -> bool:
    r"""Return True if `text` names one number in any form, as |AB|, A:B, \frac{a}{b}, P(X=2).

    Sums, powers and multiples don't: x+y=5 and x^2=4 are equations, not names for 5 and 4.
    """
    if is_symbol(text):
        return True
    rest = _INSIDE.sub("", text)
    return bool(_QUANTITY.fullmatch(rest) and _LETTER.search(rest) and not _NEGATED.search(rest))


def is_name(text: str) -> bool:
    """Return True if a member of an equation names a value, as x, f(3), m+n, AB; not x+1."""
    if text.startswith("(") and text.endswith(")"):
        return all(map(is_name, text[1:-1].split(",")))
    rest = _ARGUMENT.sub("", text)
    if not _LETTER.search(rest) or _NEGATED.search(rest):
        return False
    return not any(c.isdigit() or c in _NO_NAME for c in rest)


def defines(member: str, value: str) -> bool:
    """Return True if a member names `value` and isn't part of it: p(x) in p(x)=x^2."""
    # x(t) is not part of x_0+vt, whose x_0 is a name of its own
    names = re.sub(r"[A-Za-z]_(?:\d|\{\w+\})", "", value) if "(" in member else value
    return is_name(member) and not letters(_ARGUMENT.sub("", member)) & letters(names)


def letters(text: str) -> frozenset[str]:
    """Return the variables of an expression; e and i are numbers."""
    return frozenset(_LETTER.findall(_FORMATTING.sub(" ", text))) - {"e", "i"}
