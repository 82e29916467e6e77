"""The value of an expression at a point, exact where it is rational; no computer algebra.

A small recursive-descent parser for normalised LaTeX. What it doesn't know (sums, integrals,
degrees, relations) it doesn't read, and then nothing is said about the expression. It serves to
refuse: two expressions whose values differ at every one of several points aren't equal. Numbers
are bounded, so that no input takes longer than its length warrants.
"""

from __future__ import annotations

import cmath
import math
import re
from collections.abc import Callable, Mapping
from fractions import Fraction
from functools import lru_cache
from zlib import crc32

from sage_cli.grading.mathematics.notation import ACCENTS, GREEK
from sage_cli.grading.mathematics.numbers import (
    Value,
    absolute,
    binomial,
    factorial,
    power,
    product,
    root,
    total,
)

Point = Mapping[str, complex]
Evaluate = Callable[[Point], Value]

_MAX_DEPTH = 40
_NAMED = ("sin", "cos", "tan", "sinh", "cosh", "tanh", "exp", "log")
_FUNCTIONS: dict[str, Callable[[complex], complex]] = {
    **{rf"\{name}": getattr(cmath, name) for name in _NAMED},
    **{rf"\arc{name}": getattr(cmath, f"a{name}") for name in ("sin", "cos", "tan")},
    r"\ln": cmath.log,
    r"\cot": lambda x: 1 / cmath.tan(x),
    r"\sec": lambda x: 1 / cmath.cos(x),
    r"\csc": lambda x: 1 / cmath.sin(x),
}
_BEGINS_FACTOR = {".", "(", "{", "[", r"\frac", r"\sqrt", r"\binom", r"\dbinom"}.union(
    _FUNCTIONS, GREEK, ACCENTS
)
_TOKEN = re.compile(r"\s*(\d+(?:\.\d*)?|\.\d+|\\[A-Za-z]+|\\.|[^\s])")
_CONSTANTS: dict[str, complex] = {"π": math.pi + 0j, "e": math.e + 0j, "i": 1j}


class UnreadableError(ValueError):
    """The expression is not one that this parser knows."""


@lru_cache(maxsize=4096)
def read_expression(text: str) -> tuple[Evaluate, frozenset[str]] | None:
    """The function of a point that the normalised `text` is, and its symbols, if readable."""
    if not text.replace("π", "").isascii():
        return None
    parser = _Parser(_TOKEN.findall(text))
    try:
        return parser.whole(), frozenset(parser.symbols)
    except (ValueError, RecursionError):
        return None


def value_at(evaluate: Evaluate, point: Point) -> Value | None:
    """Return the value, None where it is undefined or too large."""
    try:
        value = evaluate(point)
        if isinstance(value, Fraction):
            return value
        return value if cmath.isfinite(value) else None
    except (ArithmeticError, ValueError, TypeError):
        return None


def point_of(symbols: frozenset[str], number: int) -> dict[str, complex]:
    """Values between 0.4 and 1.9 that depend on nothing but the symbols' names and `number`."""
    return {
        name: complex(0.4 + 1.5 * crc32(f"{number}{name}".encode()) / 2**32) for name in symbols
    }


class _Parser:
    def __init__(self, tokens: list[str]) -> None:
        self.tokens = tokens
        self.place = 0
        self.depth = 0
        self.symbols: set[str] = set()

    @property
    def next(self) -> str:
        return self.tokens[self.place] if self.place < len(self.tokens) else ""

    def take(self, expected: str | None = None) -> str:
        token = self.next
        if not token or (expected is not None and token != expected):
            raise UnreadableError(token)
        self.place += 1
        return token

    def whole(self) -> Evaluate:
        read = self.sum()
        if self.next:
            raise UnreadableError(self.next)
        return read

    def sum(self) -> Evaluate:
        self.depth += 1
        if self.depth > _MAX_DEPTH:
            raise UnreadableError("too deep")
        terms = [self.signed_product()]
        while self.next in ("+", "-"):
            terms.append(self.signed_product())
        self.depth -= 1
        if len(terms) == 1:
            return terms[0]
        return lambda at: total([term(at) for term in terms])

    def signed_product(self) -> Evaluate:
        negative = False
        while self.next in ("+", "-"):
            negative ^= self.take() == "-"
        unsigned = self.product()
        return _negated(unsigned) if negative else unsigned

    def product(self, *, within_function: bool = False) -> Evaluate:
        factors: list[tuple[bool, Evaluate]] = [(False, self.power())]
        ratios = 0
        while True:
            token = self.next
            if token in ("*", "/", ":") and not within_function:
                self.take()
                ratios += token == ":"
                if ratios > 1:
                    raise UnreadableError("a proportion of several parts")
                sign = self.take() if self.next in ("+", "-") else "+"
                factor = self.power()
                factors.append((token != "*", _negated(factor) if sign == "-" else factor))
            elif self._starts_factor(token) and not (within_function and token in _FUNCTIONS):
                if token.isdigit() and self.tokens[self.place - 1][-1:].isdigit():
                    raise UnreadableError("two numbers side by side")
                factors.append((False, self.power()))
            else:
                break
        if len(factors) == 1:
            return factors[0][1]
        return lambda at: product([(inverse, factor(at)) for inverse, factor in factors])

    @staticmethod
    def _starts_factor(token: str) -> bool:
        return token[:1].isalnum() or token[:1] == "." or token in _BEGINS_FACTOR

    def power(self) -> Evaluate:
        base = self.atom()
        while self.next in ("^", "!"):
            if self.take() == "!":
                base = _of(factorial, base)
                continue
            exponent = self.argument()
            base = _of(power, base, exponent)
        return base

    def argument(self) -> Evaluate:
        r"""Return a group, or one token: in \frac12 and x^12 one digit."""
        sign = self.take() if self.next in ("+", "-") else "+"
        token = self.next
        if token.isdigit() and len(token) > 1:
            self.tokens[self.place : self.place + 1] = [token[0], token[1:]]
        return _negated(self.atom()) if sign == "-" else self.atom()

    def atom(self) -> Evaluate:
        token = self.take()
        if token[0].isdigit() or token[0] == ".":
            return self._number(token)
        if token in ("(", "{", "["):
            inside = self.sum()
            self.take({"(": ")", "{": "}", "[": "]"}[token])
            return inside
        if token == "|":
            inside = self.sum()
            self.take("|")
            return _of(absolute, inside)
        if token == r"\frac":
            top, bottom = self.argument(), self.argument()
            return lambda at: product([(False, top(at)), (True, bottom(at))])
        if token in (r"\binom", r"\dbinom"):
            return _of(binomial, self.argument(), self.argument())
        if token == r"\sqrt":
            return self._root()
        if token in _FUNCTIONS:
            return self._function(token)
        return self._symbol(token)

    def _number(self, token: str) -> Evaluate:
        if len(token) > 300:
            raise UnreadableError("a number of hundreds of digits")
        value = Fraction(token)
        if self.next == r"\frac" and token.isdigit():  # 1\frac{4}{5} is a mixed number
            place, symbols = self.place, set(self.symbols)
            part = self.atom()
            if all(t.isdigit() or t in r"{}\frac" for t in self.tokens[place : self.place]):
                return lambda at: total([value, part(at)])
            self.place, self.symbols = place, symbols
        return lambda _: value

    def _root(self) -> Evaluate:
        degree: Evaluate = lambda _: Fraction(2)  # noqa: E731
        if self.next == "[":
            self.take()
            degree = self.sum()
            self.take("]")
        inside = self.argument()
        return _of(root, inside, degree)

    def _function(self, name: str) -> Evaluate:
        function = _FUNCTIONS[name]
        base: Evaluate | None = None
        exponent: Evaluate | None = None
        while self.next in ("^", "_"):
            if self.take() == "^":
                exponent = self.argument()
            elif name == r"\log":
                base = self.argument()
            else:
                raise UnreadableError(name)
        grouped = self.next in ("(", "{")
        inside = self.atom() if grouped else self.product(within_function=True)
        applied: Evaluate = lambda at: function(complex(inside(at)))  # noqa: E731
        if base is not None:
            of_base = base
            applied = lambda at: cmath.log(inside(at)) / cmath.log(of_base(at))  # noqa: E731
        return applied if exponent is None else self._function_power(applied, exponent)

    @staticmethod
    def _function_power(applied: Evaluate, exponent: Evaluate) -> Evaluate:
        def powered(at: Point) -> Value:
            degree = exponent(at)
            if degree == -1:
                raise ValueError("an inverse function, or a reciprocal?")
            return power(applied(at), degree)

        return powered

    def _symbol(self, token: str) -> Evaluate:
        if token in ACCENTS:
            token += self._group()
        elif token == r"\text":
            token = self._group().strip("{} ")
        elif not (token in GREEK or token == "π" or (token.isalpha() and token.isascii())):
            raise UnreadableError(token)
        while self.next in ("_", "'"):
            token += self.take() if self.next == "'" else self.take() + self._group().strip("{}")
        if token in _CONSTANTS:
            constant = _CONSTANTS[token]
            return lambda _: constant
        self.symbols.add(token)
        return lambda at: at[token]

    def _group(self) -> str:
        r"""Return the text of {...}, or of one token."""
        text = self.take()
        if text != "{":
            return text
        depth = 1
        while depth:
            token = self.take()
            depth += (token == "{") - (token == "}")
            text += token
        return text.replace(r"\text", "").replace("{{", "{").replace("}}", "}")


def _negated(factor: Evaluate) -> Evaluate:
    return lambda at: -factor(at)


def _of(function: Callable[..., Value], *parts: Evaluate) -> Evaluate:
    return lambda at: function(*(part(at) for part in parts))


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
