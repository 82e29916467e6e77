"""Arithmetic on exact fractions and complex floats that can't run away.

Fractions stay exact up to 4096 bits; beyond that, and where a result is undefined, an
ArithmeticError or ValueError is raised.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from fractions import Fraction

Value = Fraction | complex

_MAX_BITS = 4096


def _bounded(value: Value) -> Value:
    if isinstance(value, Fraction) and value.numerator.bit_length() > _MAX_BITS:
        raise OverflowError("too many digits")
    if isinstance(value, Fraction) and value.denominator.bit_length() > _MAX_BITS:
        raise OverflowError("too many digits")
    return value


def total(values: Iterable[Value]) -> Value:
    """The sum."""
    result: Value = Fraction(0)
    for value in values:
        result = _bounded(result + value)
    return result


def product(factors: Iterable[tuple[bool, Value]]) -> Value:
    """The product of factors, each with whether it divides."""
    result: Value = Fraction(1)
    for inverse, value in factors:
        result = _bounded(result / value if inverse else result * value)
    return result


def power(base: Value, exponent: Value) -> Value:
    """base to the exponent."""
    if isinstance(base, Fraction) and isinstance(exponent, Fraction) and exponent.denominator == 1:
        bits = max(base.numerator.bit_length(), base.denominator.bit_length())
        if bits * abs(exponent) > _MAX_BITS:
            raise OverflowError("too many digits")
        return base ** int(exponent)
    if isinstance(base, Fraction) and exponent == Fraction(1, 2):
        return root(base, Fraction(2))
    return complex(base) ** complex(exponent)


def root(value: Value, degree: Value) -> Value:
    """The principal root; real for the cube root of a negative fraction."""
    if isinstance(value, Fraction) and degree == 2 and value >= 0:
        top, bottom = math.isqrt(value.numerator), math.isqrt(value.denominator)
        if top * top == value.numerator and bottom * bottom == value.denominator:
            return Fraction(top, bottom)
    if degree == 3 and isinstance(value, Fraction) and value < 0:
        return -(complex(-value) ** (1 / 3))
    return complex(value) ** (1 / complex(degree))


def _small_integer(value: Value, most: int) -> int:
    if not isinstance(value, Fraction) or value.denominator != 1 or not 0 <= value <= most:
        raise ValueError("not a small natural number")
    return int(value)


def factorial(value: Value) -> Value:
    """value! of a natural number up to 100."""
    return Fraction(math.factorial(_small_integer(value, 100)))


def binomial(top: Value, bottom: Value) -> Value:
    """Choose `bottom` out of `top`, both natural numbers up to 200."""
    return Fraction(math.comb(_small_integer(top, 200), _small_integer(bottom, 200)))


def absolute(value: Value) -> Value:
    """The absolute value."""
    return abs(value) if isinstance(value, Fraction) else complex(abs(value))
