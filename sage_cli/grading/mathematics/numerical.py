"""Numerical comparison of expressions, which refuses unequal ones without computer algebra."""

from __future__ import annotations

from fractions import Fraction

from sage_cli.grading.mathematics.arithmetic import Value
from sage_cli.grading.mathematics.expression import point_of, read_expression, value_at

_POINTS = 3
_RELATIVE = 1e-9
"""Floats of an ordinary expression agree to about 1e-13; answers rounded to six places don't."""


def constant(text: str) -> Value | None:
    """The value of an expression without symbols; None where it has some or can't be read."""
    read = read_expression(text)
    return value_at(read[0], {}) if read and not read[1] else None


def differ(gold: str, answer: str) -> bool | None:
    """Return True if the values differ at each of a few points; None where they are unknown.

    False is no proof of equality.
    """
    of_gold, of_answer = read_expression(gold), read_expression(answer)
    if of_gold is None or of_answer is None:
        return None
    symbols = of_gold[1] | of_answer[1]
    for number in range(_POINTS if symbols else 1):
        point = point_of(symbols, number)
        values = value_at(of_gold[0], point), value_at(of_answer[0], point)
        if values[0] is None or values[1] is None:
            return None
        if close(values[0], values[1], None):
            return False
    return True


def close(gold: Value, answer: Value, tolerance: float | None) -> bool:
    """Equality within a relative tolerance of the gold; without one, exact where both are exact."""
    if isinstance(gold, Fraction) and isinstance(answer, Fraction):
        return abs(gold - answer) <= Fraction(tolerance or 0) * abs(gold)
    try:
        left, right = complex(gold), complex(answer)
    except OverflowError:
        return False
    return abs(left - right) <= (tolerance or _RELATIVE) * max(abs(left), abs(right))
