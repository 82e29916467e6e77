"""Arithmetic of values: exact fractions while they are small, else floats of any precision.

Magnitudes are bounded, and so is the work, so that no expression takes longer than its length
warrants.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from fractions import Fraction
from functools import lru_cache
from threading import RLock
from typing import Any
from zlib import crc32

from mpmath.ctx_mp import MPContext

from sage_cli.grading.mathematics.numbers import within

Value = Any
"""A Fraction, or a real or complex float of mpmath."""

LOCK = RLock()
"""Held while values are computed: the precision is the context's, which threads share."""
_MP = MPContext()
_MAX_BITS = 4096
_MAX_MAGNITUDE = 64
"""Bits of an exponent: e to the 2^64 is still a float, and what is larger has no value."""
_MAX_FACTORIAL = 10_000
_MAX_TERMS = 1_000
_MAX_WORK = 3e8
"""A function costs the square of its digits in work; 3e8 is about a third of a second."""
_RELATIVE = 1e-25
_NOISE_BITS = 40
"""A sum that loses all but so many bits of its terms is zero, as far as these digits tell."""


class Arithmetic:
    """Operations on values with `digits` digits where they are not exact.

    `lost` is how many bits sums and large exponents cost, `zeros` how many sums cancelled to the
    last digit; `low` and `high` are the magnitudes, as powers of two, of the smallest and the
    largest term: they say how many digits suffice.
    """

    def __init__(self, digits: int, symbols: dict[str, Value]) -> None:
        # The context is shared by all values of the process, so a caller holds `LOCK` from here
        # until it has compared.
        _MP.dps = digits
        self.symbols = {name: as_float(value) for name, value in symbols.items()}
        self.digits, self.bits = digits, _MP.prec
        self.lost = self.zeros = self.low = self.high = 0
        self._work = 0.0

    def total(self, terms: Sequence[Value]) -> Value:
        """Return the sum."""
        magnitudes = [_magnitude(term) for term in terms if term]
        if not magnitudes:
            return Fraction(0)
        self.low, self.high = min(self.low, *magnitudes), max(self.high, *magnitudes)
        if all(isinstance(term, Fraction) for term in terms):
            exact = sum(terms, Fraction(0))
            return exact if is_small(exact) else as_float(exact)
        floats = [as_float(term) for term in terms]
        result = floats[0]
        for term in floats[1:]:
            result = result + term
        # Cancellation is the only place where digits are lost at once: the sum has so many bits
        # fewer than its largest term.
        lost = max(magnitudes) - _magnitude(result) if result else _MP.prec
        # What is left is rounding. The caller sees it in `zeros`, and tries again with more digits
        # before it believes the 0.
        if lost > _MP.prec - _NOISE_BITS:
            self.zeros += 1
            return Fraction(0)
        self.lost += max(0, lost - 1)
        return self._without_noise(result)

    def product(self, factors: Sequence[tuple[bool, Value]]) -> Value:
        """Return the product of factors, each with whether it divides."""
        result: Value = Fraction(1)
        for inverse, value in factors:
            if not (isinstance(result, Fraction) and isinstance(value, Fraction)):
                result, value = as_float(result), as_float(value)
            result = result / value if inverse else result * value
            if isinstance(result, Fraction) and not is_small(result):
                result = as_float(result)
        return self._without_noise(result)

    def power(self, base: Value, exponent: Value) -> Value:
        """Return base to the exponent: the real power of a negative number, if it has one."""
        if isinstance(base, Fraction) and isinstance(exponent, Fraction):
            bits = max(base.numerator.bit_length(), base.denominator.bit_length())
            # The size of the result is known before it is computed: 9^(9^9) must not be tried.
            if exponent.denominator == 1 and bits * abs(exponent) <= _MAX_BITS:
                return base ** int(exponent)
            if exponent == Fraction(1, 2) and (exact := _exact_root(base)) is not None:
                return exact
        if (
            is_real(base)
            and base < 0
            and isinstance(exponent, Fraction)
            and exponent.denominator % 2
        ):
            size = self.power(-base, exponent)
            return -size if exponent.numerator % 2 else size
        # 0^0 and 0^-1 divide by zero here, which says "no value"; in mpmath 0^0 is 1.
        if base == 0:
            return self.product([(False, base), (True, base)] if exponent <= 0 else [(False, base)])
        if exponent == 0:
            return Fraction(1)
        self._spend()
        self._require_bounded(as_float(exponent) * _MP.log(as_float(base)))
        whole = isinstance(exponent, Fraction) and exponent.denominator == 1
        degree = int(exponent) if whole else as_float(exponent)
        return self._without_noise(as_float(base) ** degree)

    def root(self, value: Value, degree: Value) -> Value:
        """Return the root that `power` gives."""
        return self.power(value, self.product([(True, degree)]))

    def factorial(self, value: Value) -> Value:
        """Return value! (the gamma function between the natural numbers)."""
        if isinstance(value, Fraction) and value.denominator == 1:
            if not 0 <= value <= _MAX_FACTORIAL:
                raise OverflowError("too many digits")
            exact = Fraction(_factorial(int(value)))
            return exact if is_small(exact) else as_float(exact)
        self._spend(200)
        self._require_bounded(as_float(value))
        return _MP.gamma(as_float(value) + 1)

    def binomial(self, top: Value, bottom: Value) -> Value:
        """Choose `bottom` out of `top`."""
        rest = self.total([top, -bottom])
        if all(isinstance(value, Fraction) and value.denominator == 1 for value in (top, bottom)):
            if not 0 <= bottom <= top:
                raise ValueError("not a number of subsets")
            if top <= _MAX_FACTORIAL and min(bottom, rest) <= _MAX_BITS // 16:
                return Fraction(math.comb(int(top), int(bottom)))
        parts = [(False, top), (True, bottom), (True, rest)]
        return self.product([(inverse, self.factorial(value)) for inverse, value in parts])

    def double_factorial(self, value: Value) -> Value:
        """Return the product of every second natural number up to `value`."""
        if not isinstance(value, Fraction) or value.denominator != 1:
            raise ValueError("not a natural number")
        half = Fraction(value // 2)
        even = self.product([(False, self.power(Fraction(2), half)), (False, self.factorial(half))])
        return self.product([(False, self.factorial(value)), (True, even)]) if value % 2 else even

    def function(self, name: str, value: Value) -> Value:
        """Return the function of mpmath called `name` at `value`; `cis` is e to the i times it."""
        self._spend()
        self._require_bounded(as_float(value))
        if name in ("tanh", "coth") and abs(value) < _MAX_FACTORIAL:  # is 1, nearly
            self.low = min(self.low, -int(3 * abs(value)))
        argument = as_float(value)
        function = _MP.expj if name == "cis" else getattr(_MP, name)
        result = self._without_noise(function(argument))
        # The value at a multiple of π is the rounding of its argument, not a small number.
        lowest = _magnitude(argument) + _NOISE_BITS - _MP.prec if argument else 0
        if name in ("sin", "cos", "tan") and result and _magnitude(result) < lowest:  # as of sin π
            self.zeros += 1
            return Fraction(0)
        return result

    def constant(self, name: str) -> Value:
        """Return the number π, e or i."""
        return {"π": +_MP.pi, "e": +_MP.e, "i": _MP.j}[name]

    def degrees(self, value: Value) -> Value:
        """Return an angle of so many degrees."""
        return self.product([(False, value), (False, +_MP.pi), (True, Fraction(180))])

    def series(
        self,
        name: str,
        term: Callable[[Arithmetic], Value],
        low: Value,
        high: Value,
        *,
        product: bool,
    ) -> Value:
        """Return the sum or product of a term over the whole numbers `low` to `high`."""
        if not all(isinstance(end, Fraction) and end.denominator == 1 for end in (low, high)):
            raise ValueError("not whole limits")
        if not 0 <= high - low < _MAX_TERMS:
            raise ValueError("no terms, or too many")
        # the index hides a symbol of the same name outside, as a bound name does
        outer = self.symbols.get(name)
        values = []
        for index in range(int(low), int(high) + 1):
            self._spend(10)
            self.symbols[name] = Fraction(index)
            values.append(term(self))
        self.symbols.pop(name)
        if outer is not None:
            self.symbols[name] = outer
        if product:
            return self.product([(False, value) for value in values])
        return self.total(values)

    def opaque(self, name: str, values: Sequence[Value]) -> Value:
        """Return the value of a function of which only the name is known: any would do."""
        # a fixed function of the name: f(2) = f(1 + 1) must hold, and f(2) = g(2) must not
        seed = _MP.mpf(crc32(name.encode())) / 2**32
        self._spend(len(values))
        shifted = [as_float(value) * (seed + n + 1) for n, value in enumerate(values)]
        return 2 + sum(_MP.cos(value + seed) for value in shifted)

    def _spend(self, times: int = 1) -> None:
        self._work += times * self.digits**2
        if self._work > _MAX_WORK:
            raise OverflowError("too much work")

    def _require_bounded(self, value: Value) -> None:
        """Note what an exponent or argument costs in digits; raise OverflowError if too much."""
        bits = _magnitude(value) if value else 0
        if bits > _MAX_MAGNITUDE:
            raise OverflowError("too large")
        self.lost += max(0, bits - 4)
        self.low = min(self.low, 3 * bits)  # tan x - x is about the third of x^3

    def _without_noise(self, value: Value) -> Value:
        """Return the value without a real or imaginary part that is nothing but rounding."""
        if not isinstance(value, _MP.mpc):
            return value
        real, imaginary = value.real, value.imag
        noise = abs(value) * _MP.mpf(2) ** (_NOISE_BITS - _MP.prec)
        if abs(imaginary) <= noise:
            return real
        return _MP.mpc(0, imaginary) if abs(real) <= noise else value


def is_real(value: Value) -> bool:
    """Return True if a value has no imaginary part."""
    return isinstance(value, Fraction) or not value.imag


def is_small(value: Fraction) -> bool:
    """Return True if a fraction has so few digits that it stays exact."""
    return max(value.numerator.bit_length(), value.denominator.bit_length()) <= _MAX_BITS


def is_finite(value: Value) -> bool:
    """Return True for a number that is neither infinite nor undefined."""
    return isinstance(value, Fraction) or bool(_MP.isfinite(value))


def equal_bits(value: Value, other: Value) -> float:
    """Return how many bits of two values are equal, infinity if they are the same."""
    if isinstance(value, Fraction) and isinstance(other, Fraction):
        difference: Value = value - other
    else:
        difference = as_float(value) - as_float(other)
    if not difference:
        return math.inf
    return max(_magnitude(v) for v in (value, other) if v) - _magnitude(difference)


def close(gold: Value, answer: Value, tolerance: float | None) -> bool:
    """Equality within a relative tolerance of the gold; without one, exact where both are exact."""
    if isinstance(gold, Fraction) and isinstance(answer, Fraction):
        return within(gold, answer, tolerance)
    with LOCK:
        difference = abs(as_float(gold) - as_float(answer))
        return bool(difference <= (tolerance or _RELATIVE) * abs(as_float(gold)))


def as_float(value: Value) -> Value:
    """Return a fraction as a float of the precision at hand, a float as it is."""
    return _MP.mpf(value.numerator) / value.denominator if isinstance(value, Fraction) else value


def _magnitude(value: Value) -> int:
    if isinstance(value, Fraction):
        return value.numerator.bit_length() - value.denominator.bit_length()
    return int(_MP.mag(value))


def _exact_root(value: Fraction) -> Fraction | None:
    """Return the square root of the square of a fraction."""
    if value < 0:
        return None
    top, bottom = math.isqrt(value.numerator), math.isqrt(value.denominator)
    return Fraction(top, bottom) if Fraction(top, bottom) ** 2 == value else None


@lru_cache(maxsize=64)
def _factorial(number: int) -> int:
    return math.factorial(number)
