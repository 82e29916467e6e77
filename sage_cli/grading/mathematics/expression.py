"""The value of an expression at a point, exact where it is rational; no computer algebra.

A small recursive-descent parser for normalised LaTeX. What it doesn't know (sums, integrals,
relations) it doesn't read, and then nothing is said about the expression. Constants are equal if
they agree to more digits than their terms could tell apart; other expressions if they agree at
every one of many points. Numbers are bounded, so that no input takes longer than its length
warrants.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from fractions import Fraction
from functools import lru_cache
from zlib import crc32

from sage_cli.grading.mathematics.notation import ACCENTS, GREEK
from sage_cli.grading.mathematics.values import (
    LOCK,
    Arithmetic,
    Value,
    as_float,
    close,
    equal_bits,
    is_finite,
    is_real,
)

Evaluate = Callable[[Arithmetic], Value]
_Point = dict[str, Value]

_MAX_DEPTH = 40
_CIRCULAR, _HYPERBOLIC = ("sin", "cos", "tan", "cot", "sec", "csc"), ("sinh", "cosh", "tanh")
_FUNCTIONS = {
    **{rf"\{name}": name for name in (*_CIRCULAR, *_HYPERBOLIC, "coth", "exp", "cis")},
    **{rf"\arc{name}": f"a{name}" for name in (*_CIRCULAR, *_HYPERBOLIC)},
    **{rf"\ar{name}": f"a{name}" for name in _HYPERBOLIC},
    r"\ln": "log",
    r"\log": "log",
}
"""The functions of LaTeX and their names in mpmath."""
_SUMS = (r"\sum", r"\prod")
_OPERATORS = {r"\max": max, r"\min": min}
_BEGINS_FACTOR = {".", "(", "{", "[", r"\frac", r"\sqrt", r"\binom", r"\abs", r"\norm"}.union(
    _FUNCTIONS, _OPERATORS, GREEK, ACCENTS
)
_TOKEN = re.compile(r"\s*(\d+(?:\.\d*)?|\.\d+|\\[A-Za-z]+|\\.|[^\s])")
_CONSTANTS = ("π", "e", "i")
_IMAGINARY = re.compile(r"(?<!\\)\b(?:[A-Za-z]*i[A-Za-z]*)|\\cis")
_CLOSES = {"(": ")", "{": "}", "[": "]"}
_OF_FRACTION = ("{", "}", r"\frac")
_ARGUMENT = re.compile(r"\((?:\d+|[A-Za-z])\)")
"""I(0) and x(t) are values of a function: nobody writes such a factor in parentheses."""
_DIFFERENTIAL = re.compile(r"(d|\\partial)(?:\^\{?(?:\d+|[nk])\}?)?(.*)")
_DIGITS, _MAX_DIGITS = 40, 8000
_SPARE_BITS = 20
"""Bits that rounding may cost in a whole expression."""
_CERTAIN_BITS = 80
"""Values that agree to so many bits are equal, unless their terms could differ by less."""
_POINTS = 3
_MAGNITUDE, _NORM = re.compile(r"\|([^|]+)\|"), re.compile(r"‖([^‖]+)‖")
_LITERAL = re.compile(r"\d+\.?\d*|\.\d+")
_COUNTS = (*range(1, 9), *range(9, 25), 30, 41, 57, 80)
"""Where a sum and its closed form are compared: 1 to 8 and twenty larger numbers."""


class _UnreadableError(ValueError):
    """The expression is not one that this parser knows."""


@lru_cache(maxsize=4096)
def read_expression(text: str) -> tuple[Evaluate, frozenset[str]] | None:
    """The function of a point that the normalised `text` is, and its symbols, if readable."""
    parser = _parser_of(text)
    if parser is None:
        return None
    try:
        return parser.whole(), frozenset(parser.symbols)
    except (ValueError, RecursionError):
        return None


def _parser_of(text: str) -> _Parser | None:
    # Bars don't say whether they open or close. The patterns match the innermost pair, so that a
    # loop resolves nested ones from the inside out.
    while text != (text := _MAGNITUDE.sub(r"\\abs{\1}", _NORM.sub(r"\\norm{\1}", text))):
        pass
    # Other signs are relations (≤, ∈) or words of other alphabets, which have no value.
    if not text.replace("π", "").replace("°", "").isascii():
        return None
    return _Parser(_TOKEN.findall(text))


def number_at(evaluate: Evaluate, at: Arithmetic) -> Value | None:
    """Return the value, None where it is undefined or too large."""
    try:
        value = evaluate(at)
        return value if is_finite(value) else None
    except (ArithmeticError, ValueError, TypeError):
        return None


def point_of(symbols: frozenset[str], number: int) -> _Point:
    """Values between 0.4 and 1.9 that depend on nothing but the symbols' names and `number`."""
    return {
        # A checksum instead of `hash` or a random number: a grade must be the same in every
        # process. Away from 0 and 1, where different expressions often agree, and small enough that
        # powers stay bounded.
        name: Fraction(crc32(f"{number}{name}".encode()), 2**32) * 3 / 2 + Fraction(2, 5)
        for name in symbols
    }


class _Parser:
    def __init__(self, tokens: list[str]) -> None:
        self.tokens = tokens
        self.place = 0
        self.depth = 0
        self.symbols: set[str] = set()
        self.bound: list[str] = []
        self.limits: set[str] | None = None  # the symbols in limits of sums, where sums are read

    @property
    def next(self) -> str:
        return self.tokens[self.place] if self.place < len(self.tokens) else ""

    def ahead(self, count: int) -> str:
        return "".join(self.tokens[self.place : self.place + count])

    def take(self, expected: str | None = None) -> str:
        token = self.next
        if not token or (expected is not None and token != expected):
            raise _UnreadableError(token)
        self.place += 1
        return token

    def whole(self) -> Evaluate:
        read = self.sum()
        if self.next:
            raise _UnreadableError(self.next)
        return read

    def sum(self) -> Evaluate:
        self.depth += 1
        # Before Python's own limit, which an answer of thousands of brackets would reach in a place
        # where the stack is needed for something else.
        if self.depth > _MAX_DEPTH:
            raise _UnreadableError("too deep")
        terms = [self.signed_product()]
        while self.next in ("+", "-"):
            terms.append(self.signed_product())
        self.depth -= 1
        if len(terms) == 1:
            return terms[0]
        return lambda at: at.total([term(at) for term in terms])

    def signed_product(self) -> Evaluate:
        negative = False
        while self.next in ("+", "-"):
            negative ^= self.take() == "-"
        unsigned = self.product()
        if self.next == ":":  # divides by all that follows, 1:2\\sqrt{2} by 2\\sqrt{2}
            self.take()
            unsigned = _quotient(unsigned, self.product())
        return _negated(unsigned) if negative else unsigned

    def product(self, *, within_function: bool = False) -> Evaluate:
        # Products are collected and not nested: a/b/c and a b c have the usual meaning from left to
        # right, and a long product needs no recursion.
        factors: list[tuple[bool, Evaluate]] = [(False, self.power())]
        while True:
            token = self.next
            if token in ("*", "/") and not within_function:
                self.take()
                sign = self.take() if self.next in ("+", "-") else "+"
                factor = self.power()
                factors.append((token != "*", _negated(factor) if sign == "-" else factor))
            elif self._starts_factor(token) and not (within_function and token in _FUNCTIONS):
                # Two numbers beside each other are not a product: 1 000 or a lost separator.
                if token.isdigit() and self.tokens[self.place - 1][-1:].isdigit():
                    raise _UnreadableError("two numbers side by side")
                factors.append((False, self.power()))
            else:
                break
        if len(factors) == 1:
            return factors[0][1]
        return lambda at: at.product([(inverse, factor(at)) for inverse, factor in factors])

    def _starts_factor(self, token: str) -> bool:
        begins = token[:1].isalnum() or token[:1] == "." or token in _BEGINS_FACTOR
        return begins or (token in _SUMS and self.limits is not None)

    def power(self) -> Evaluate:
        base = self.atom()
        while self.next in ("^", "!", "°"):
            operator = self.take()
            if operator == "°":
                base = _of(Arithmetic.degrees, base)
            elif operator == "!" and self.next == "!":
                self.take()
                base = _of(Arithmetic.double_factorial, base)
            elif operator == "!":
                base = _of(Arithmetic.factorial, base)
            elif star := re.match(r"\*|\{\*\}", self.ahead(3)):  # a conjugate, or a dual
                self.place += star.end()
                base = self.opaque("*", base)
            else:
                base = _of(Arithmetic.power, base, self.argument())
        return base

    def argument(self) -> Evaluate:
        r"""Return a group, or one token: in \frac12 and x^12 one digit."""
        sign = self.take() if self.next in ("+", "-") else "+"
        token = self.next
        if token.isdigit() and len(token) > 1:
            # TeX takes a single token as an argument: \frac12 is a half, and x^12 is x^1 times 2.
            self.tokens[self.place : self.place + 1] = [token[0], token[1:]]
        return _negated(self.atom()) if sign == "-" else self.atom()

    def atom(self) -> Evaluate:
        token = self.take()
        if token[0].isdigit() or token[0] == ".":
            return self._number(token)
        if token in _CLOSES:
            inside = self.sum()
            self.take(_CLOSES[token])
            return inside
        if token == r"\abs":
            return _of(lambda _, value: abs(value), self.atom())
        if token == r"\norm":
            return self.opaque(token, self.atom())
        if token == r"\frac":
            # Before an ordinary fraction, or d y/d x would lose its d by cancellation.
            return self.derivative() or _quotient(self.argument(), self.argument())
        if token == r"\binom":
            return _of(Arithmetic.binomial, self.argument(), self.argument())
        if token == r"\sqrt":
            return self._root()
        if token in _FUNCTIONS:
            return self._function(token)
        if token in _SUMS and self.limits is not None:
            return self._sum(product=token == r"\prod")
        if token in _OPERATORS:
            choose, members = _OPERATORS[token], self.arguments()
            return lambda at: choose((member(at) for member in members), key=as_float)
        return self._symbol(token)

    def derivative(self) -> Evaluate | None:
        r"""Return \frac{dy}{dx} as a symbol of its own; None where a fraction is something else."""
        begin = self.place
        parts = [self._group().strip("{}") if self.next == "{" else "" for _ in range(2)]
        of, by = map(_DIFFERENTIAL.fullmatch, parts)
        if of and by and of[1] == by[1] and by[2]:
            return self.symbol(re.sub(r"[{}]", "", f"{parts[0]} by {parts[1]}"))
        self.place = begin
        return None

    def arguments(self) -> list[Evaluate]:
        """Return the members of a list in parentheses or braces."""
        closing = {"(": ")", r"\{": r"\}"}.get(self.take())
        members = [self.sum()]
        while self.next == ",":
            self.take()
            members.append(self.sum())
        self.take(closing or "")
        return members

    def symbol(self, name: str) -> Evaluate:
        self.symbols.add(name)
        return lambda at: at.symbols[name]

    def opaque(self, name: str, *members: Evaluate) -> Evaluate:
        # Counts as a symbol, so that an expression with it is never taken for a constant.
        self.symbols.add(f"{name}()")
        return lambda at: at.opaque(name, [member(at) for member in members])

    def _number(self, token: str) -> Evaluate:
        #  An exact fraction of it would be carried through every operation.
        if len(token) > 300:
            raise _UnreadableError("a number of hundreds of digits")
        value = Fraction(token)
        if self.next == r"\frac" and token.isdigit():  # 1\frac{4}{5} is a mixed number
            place, symbols = self.place, set(self.symbols)
            part = self.atom()
            # Only a fraction of digits makes a mixed number: 2\frac{x}{3} is a product.
            if all(t.isdigit() or t in _OF_FRACTION for t in self.tokens[place : self.place]):
                return lambda at: at.total([value, part(at)])
            self.place, self.symbols = place, symbols
        return lambda _: value

    def _root(self) -> Evaluate:
        degree: Evaluate = lambda _: Fraction(2)  # noqa: E731
        if self.next == "[":
            self.take()
            degree = self.sum()
            self.take("]")
        inside = self.argument()
        return _of(Arithmetic.root, inside, degree)

    def _function(self, name: str) -> Evaluate:
        function = _FUNCTIONS[name]
        base: Evaluate | None = None
        exponent: Evaluate | None = None
        while self.next in ("^", "_"):
            if self.take() == "^":
                inverse = self.ahead(4) == "{-1}"
                exponent = self.argument()
                # By convention sin^{-1} x is the inverse function, although sin^2 x is a power.
                if inverse and rf"\arc{name[1:]}" in _FUNCTIONS:
                    function, exponent = f"a{function}", None
            elif name == r"\log":
                base = self.argument()
            else:
                raise _UnreadableError(name)
        grouped = self.next in ("(", "{")
        # Without brackets a function takes what follows up to the next function or sign: sin 2x cos
        # x is sin(2x) cos x.
        inside = self.atom() if grouped else self.product(within_function=True)
        applied = _of(lambda at, value: at.function(function, value), inside)
        if base is not None:
            applied = _quotient(applied, _of(lambda at, value: at.function("log", value), base))
        return applied if exponent is None else _of(Arithmetic.power, applied, exponent)

    def _sum(self, *, product: bool) -> Evaluate:
        """Return a finite sum: its index runs over the whole numbers between its limits."""
        assert self.limits is not None
        for expected in ("_", "{"):
            self.take(expected)
        name = self.take()
        self.take("=")
        outer = set(self.symbols)
        self.symbols.clear()
        low = self.sum()
        for expected in ("}", "^"):
            self.take(expected)
        high = self.argument()
        # an inner sum may end at an outer index, which takes no value of its own
        self.limits |= self.symbols - set(self.bound)
        if name in self.symbols or not (name.isalpha() and len(name) == 1):
            raise _UnreadableError(name)
        self.bound.append(name)
        # As in print, a sum extends over one product: what is added behind it is not part of it.
        term = self.product()
        self.bound.pop()
        self.symbols = (self.symbols - {name}) | outer
        return lambda at: at.series(name, term, low(at), high(at), product=product)

    def _symbol(self, token: str) -> Evaluate:
        if token in self.bound:
            return self.symbol(token)
        if token in ACCENTS:
            token += self._group()
        elif token == r"\text":
            token = self._group().strip("{} ")
        elif not (token in GREEK or token == "π" or (token.isalpha() and token.isascii())):
            raise _UnreadableError(token)
        while self.next in ("_", "'"):
            token += self.take() if self.next == "'" else self.take() + self._group().strip("{}")
        if token in _CONSTANTS:
            return lambda at: at.constant(token)
        # Juxtaposition is a product otherwise: x(y+1) is x times (y+1).
        is_function = token.rstrip("'") in ("f", r"\Gamma", r"\zeta")
        if self.next == "(" and (is_function or _ARGUMENT.match(self.ahead(3))):
            return self.opaque(token, *self.arguments())
        return self.symbol(token)

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


def _quotient(top: Evaluate, bottom: Evaluate) -> Evaluate:
    return lambda at: at.product([(False, top(at)), (True, bottom(at))])


def _of(operation: Callable[..., Value], *parts: Evaluate) -> Evaluate:
    return lambda at: operation(at, *(part(at) for part in parts))


@lru_cache(maxsize=4096)
def constant(text: str) -> Value | None:
    """The value of an expression without symbols; None where it has some or can't be read."""
    read = read_expression(text)
    if read is None or read[1]:
        return None
    with LOCK:
        return number_at(read[0], Arithmetic(_DIGITS, {}))


def compare_expressions(gold: str, answer: str) -> bool | None:
    """Return True if two expressions have the same value wherever they have one, False if nowhere.

    None where one of them can't be read, and where the values don't decide it.
    """
    of_gold, of_answer = read_expression(gold), read_expression(answer)
    if of_gold is None or of_answer is None:
        return None
    symbols = of_gold[1] | of_answer[1]
    # A decimal of 60 digits needs more precision than the default to differ in its last digit.
    literals = _LITERAL.findall(f"{gold} {answer}")
    sides, literal = (of_gold[0], of_answer[0]), max(map(len, literals), default=0)
    if not symbols:
        return _agree(sides, {}, literal) is True
    agreed = [_agree(sides, point_of(symbols, n), literal) for n in range(_POINTS)]
    # Three verdicts: everywhere (equal), nowhere (different), and in between, which stays
    # undecided, since identities such as sqrt(x^2) = x hold on some points only.
    if not any(agreed) and None not in agreed:
        return False
    if not all(agreed):
        return None
    # \sqrt{1/n} and 1/\sqrt{n} have other values below 0, but there they are not real functions
    largest = max([min(float(n), 1e9) for n in literals], default=0)
    within_reals = not _IMAGINARY.search(gold + answer)
    points = _signed_points(symbols, (0.0625, 1, 20, max(400, 3 * largest)))
    beyond = [_agree(sides, at, literal, within_reals) for at in points]
    return True if False not in beyond and beyond.count(True) >= _POINTS else None


def _signed_points(symbols: frozenset[str], scales: Sequence[float]) -> Iterator[_Point]:
    """Yield points of each size: all positive, all negative, and of several signs."""
    for number, scale in enumerate(scales):
        size = {
            name: v * Fraction(scale) for name, v in point_of(symbols, _POINTS + number).items()
        }
        yield size
        yield {name: -value for name, value in size.items()}
        if len(symbols) > 1:
            below = {name for name in symbols if crc32(f"{number}{name}".encode()) % 5 < 2}
            if len(below) in (0, len(symbols)):
                below = {max(symbols)}
            yield {name: -value if name in below else value for name, value in size.items()}


def _agree(
    sides: Sequence[Evaluate], point: _Point, literal: int, within_reals: bool = False
) -> bool | None:
    """Return True if two values are equal at a point; None where they are unknown.

    The digits suffice to tell apart what differs by its smallest term, or the last digit of a
    number of `literal` digits. `within_reals` leaves open values of which none is real.
    """
    digits = _DIGITS
    while True:
        with LOCK:
            at = Arithmetic(digits, point)
            values = [number_at(side, at) for side in sides]
            # One side has a value where the other has none: they are different functions. Where
            # both have none, the point says nothing.
            if None in values:
                return None if values == [None, None] else False
            # Rationals are compared exactly. A sum that cancelled to the last digit was taken for
            # 0, and such a fraction is not exact.
            if all(isinstance(value, Fraction) for value in values) and not at.zeros:
                return values[0] == values[1]
            bits = equal_bits(*values)
            certain = at.bits - at.lost - _SPARE_BITS
        if bits < certain and not at.zeros:
            return None if within_reals and not any(map(is_real, values)) else False
        # Different values may agree in many digits: e^(-100) + 1 against 1. So the precision grows
        # until the smallest term that occurred is visible beside the largest; a third, since a
        # digit has 3.3 bits.
        needed = _DIGITS + 20 + literal + (at.high - at.low + at.lost) // 3
        if digits >= needed:
            same = bits >= certain >= _CERTAIN_BITS
            return None if within_reals and not same and not any(map(is_real, values)) else same
        if needed > _MAX_DIGITS:
            return None
        digits = needed


@lru_cache(maxsize=1024)
def _read_sum(text: str) -> tuple[Evaluate, frozenset[str], frozenset[str]] | None:
    """Return what `read_expression` does with finite sums, and the symbols in their limits."""
    parser = _parser_of(text)
    if parser is None:
        return None
    parser.limits = set()
    try:
        evaluate = parser.whole()
    except (ValueError, RecursionError):
        return None
    return evaluate, frozenset(parser.symbols), frozenset(parser.limits)


def same_sum(gold: str, answer: str) -> bool | None:
    """Return True if a finite sum or product has the answer's value for every tried limit.

    Values are exact where the terms are rational. None where one can't be read. The gold is the
    sum: a sum that nobody has computed is not an answer to its closed form.
    """
    of_gold, of_answer = _read_sum(gold), _read_sum(answer)
    if of_gold is None or of_answer is None:
        return None
    # With other symbols, or with two limits to vary, agreement at one diagonal of values would
    # prove nothing.
    if of_gold[1] != of_answer[1] or len(of_gold[2]) > 1 or not of_answer[2] <= of_gold[2]:
        return None
    compared = 0
    for count in _COUNTS if of_gold[2] else (1,):
        with LOCK:
            at = Arithmetic(_DIGITS, point_of(of_gold[1], count))
            at.symbols.update(dict.fromkeys(of_gold[2], Fraction(count)))
            value = number_at(of_gold[0], at)
            other = number_at(of_answer[0], at)
        if value is None:
            if compared:  # too much work
                return None
            continue  # a sum without terms, as from 2 to 1
        if other is None or not close(value, other, None):
            return False
        compared += 1
    # Some limits may give no terms; but a polynomial through a few points agrees with any sum
    # there, so that most must have been compared.
    return True if compared >= len(_COUNTS) - 3 or (compared and not of_gold[2]) else None


def same_equation(gold: Sequence[str], answer: Sequence[str]) -> bool | None:
    """Return True if two equations, each of two sides, have the same solutions; None if unknown.

    They have if one is a multiple of the other, and not if a solution of one is none of the other.
    """
    read = [read_expression(f"({left})-({right})") for left, right in (gold, answer)]
    if read[0] is None or read[1] is None or read[0][1] != read[1][1] or not read[0][1]:
        return None
    symbols, sides = read[0][1], (read[0][0], read[1][0])
    points = [point_of(symbols, number) for number in range(_POINTS)]
    with LOCK:
        for point in _signed_points(symbols, (0.5, 1)):  # |x| is not x
            if all(value is not None and is_real(value) for value in _values(sides, point)):
                points.append(point)
        if all(_are_multiples(sides, point) for point in points):
            return True
        for name in sorted(symbols):
            for side, other in (sides, sides[::-1]):
                solutions = [_solved(side, point, name) for point in points]
                if None in solutions[:_POINTS]:
                    continue
                if any(_values((other,), at)[0] for at in solutions if at):
                    return False
    return None


def _values(sides: Sequence[Evaluate], point: _Point | None) -> list[Value | None]:
    at = Arithmetic(_DIGITS, point or {})
    return [number_at(side, at) for side in sides]


def _are_multiples(sides: Sequence[Evaluate], point: _Point) -> bool:
    """Return True if an expression is the other times powers of variables that add no zeros."""
    for name, begin in point.items():
        ratios = []
        for size in (1, 2, 4):
            gold, answer = _values(sides, {**point, name: begin * size})
            if not gold or not answer:
                return False
            # Times a power of a variable, the ratio is geometric over sizes 1, 2, 4: r1 r3 = r2^2.
            # That finds the multiple without knowing the power.
            ratios.append(Arithmetic(_DIGITS, {}).product([(False, answer), (True, gold)]))
        if not close(ratios[0] * ratios[2], ratios[1] * ratios[1], None):
            return False
        gold, answer = _values(sides, {**point, name: Fraction(0)})
        # x y = x isn't a multiple of y = 1 in this sense: the factor x adds the solutions x = 0.
        if (gold == 0) != (answer == 0) and not close(ratios[0], ratios[1], None):
            return False
    return True


def _solved(side: Evaluate, point: _Point, name: str) -> _Point | None:
    """Return the point with the value of `name` at which an expression linear in it is zero."""
    begin = point[name]
    values = [_values((side,), {**point, name: begin + n})[0] for n in range(3)]
    first, second, third = values
    if first is None or second is None or third is None or name.endswith("()"):
        return None
    at = Arithmetic(_DIGITS, point)
    slope = at.total([second, -first])
    # A second difference of 0 says that the expression is linear in the variable, as far as three
    # points tell; then a secant gives its zero exactly.
    if not slope or at.total([third, -second, -second, first]):
        return None
    return {**point, name: at.total([begin, at.product([(False, -first), (True, slope)])])}
