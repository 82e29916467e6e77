"""The formula beside a word problem: read, evaluated, and written out one operation at a time."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial, reduce
from operator import add, mul, sub

_UNITS = re.compile(r"\(\s*[a-zA-Z][a-zA-Z /]*\)")
_TOKEN = re.compile(r"\d+(?:\.\d+)?|[-+*/()]")


@dataclass(frozen=True, slots=True)
class Operation:
    """`left operator right`, with operator one of + - * /."""

    operator: str
    left: Formula
    right: Formula


Formula = int | Operation
"""A whole number, or an operation on two formulas."""


def read_formula(text: str) -> Formula | None:
    """The left side of `text`; None unless it is arithmetic on whole numbers.

    ASDiv writes `3*8 (km)=24 (km)`, SVAMP `( 290.0 / 2.0 )`.
    """
    left = _UNITS.sub("", text.partition("=")[0]).replace(",", "")
    if _TOKEN.sub("", left).strip():
        return None
    try:
        return _Reader(_TOKEN.findall(left)).whole()
    except ValueError:
        return None


def value(formula: Formula) -> int | None:
    """The value of `formula`; None if a step isn't a whole number from 0 up."""
    if isinstance(formula, int):
        return formula
    left, right = value(formula.left), value(formula.right)
    return None if left is None or right is None else apply(formula.operator, left, right)


def apply(operator: str, left: int, right: int) -> int | None:
    """`left operator right`; None unless it is a whole number from 0 up."""
    if operator == "/":
        return left // right if right and left % right == 0 else None
    operations: Mapping[str, Callable[[int, int], int]] = {"+": add, "-": sub, "*": mul}
    result = operations[operator](left, right)
    return result if result >= 0 else None


def numbers(formula: Formula) -> Iterator[int]:
    """The numbers in `formula`, from left to right."""
    if isinstance(formula, int):
        yield formula
    else:
        yield from numbers(formula.left)
        yield from numbers(formula.right)


def with_numbers(formula: Formula, new: Mapping[int, int]) -> Formula:
    """`formula` with every number that `new` maps replaced; constants that it doesn't map stay."""
    if isinstance(formula, int):
        return new.get(formula, formula)
    left, right = with_numbers(formula.left, new), with_numbers(formula.right, new)
    return Operation(formula.operator, left, right)


def in_order(formula: Formula, places: Mapping[int, int]) -> Formula:
    """`formula` with the parts of a sum or product in the order in which the text names them.

    A part stands where the first of its numbers does; a constant that has no place comes last.
    """
    if isinstance(formula, int):
        return formula
    if formula.operator not in "+*":
        left, right = in_order(formula.left, places), in_order(formula.right, places)
        return Operation(formula.operator, left, right)
    parts = [in_order(part, places) for part in _parts(formula, formula.operator)]
    parts.sort(key=lambda part: min(places.get(number, math.inf) for number in numbers(part)))
    return reduce(partial(Operation, formula.operator), parts)


def _parts(formula: Formula, operator: str) -> Iterator[Formula]:
    """The operands of a chain of one operator: 1, 2 and 3*4 of `1+(2+3*4)`."""
    if isinstance(formula, int) or formula.operator != operator:
        yield formula
    else:
        yield from _parts(formula.left, operator)
        yield from _parts(formula.right, operator)


def infix(formula: Formula) -> str:
    """`formula` in one line, with parentheses around its parts."""
    if isinstance(formula, int):
        return str(formula)
    parts = (formula.left, formula.right)
    left, right = (str(part) if isinstance(part, int) else f"({infix(part)})" for part in parts)
    return left + formula.operator + right


def working_out(formula: Formula) -> str:
    """One equation for each operation: `(8+9)*5` is written `8+9=71>17;17*5=58>85`.

    A result of several digits comes units first and then the right way round, because that is the
    order in which carries are known (quotients are found from the front: `84/7=12`). A product of
    two numbers of several digits is split by its second factor's last digit, as on paper: `21*34`
    is `21*30=036>630;21*4=48>84;630+84=417>714`. A formula that is a bare number is itself.
    """
    equations: list[str] = []
    result = _write(formula, equations)
    return ";".join(equations) or str(result)


def _write(formula: Formula, equations: list[str]) -> int:
    if isinstance(formula, int):
        return formula
    left, right = _write(formula.left, equations), _write(formula.right, equations)
    if formula.operator == "*" and min(left, right) > 9 and right % 10:
        units = right % 10
        tens = _equation("*", left, right - units, equations)
        return _equation("+", tens, _equation("*", left, units, equations), equations)
    return _equation(formula.operator, left, right, equations)


def _equation(operator: str, left: int, right: int, equations: list[str]) -> int:
    result = apply(operator, left, right)
    if result is None:
        raise ValueError(f"{left}{operator}{right} is not a whole number from 0 up")
    units_first = f"{str(result)[::-1]}>" if result > 9 and operator != "/" else ""
    equations.append(f"{left}{operator}{right}={units_first}{result}")
    return result


class _Reader:
    """Sums of products of numbers and parentheses, operators of a kind from left to right."""

    def __init__(self, tokens: list[str]) -> None:
        self.tokens = tokens[::-1]

    def whole(self) -> Formula:
        formula = self._sum()
        if self.tokens:
            raise ValueError(f"'{self.tokens[-1]}' is left over")
        return formula

    def _sum(self) -> Formula:
        return self._chain("+-", self._product)

    def _product(self) -> Formula:
        return self._chain("*/", self._number)

    def _chain(self, operators: str, part: Callable[[], Formula]) -> Formula:
        formula = part()
        while self.tokens and self.tokens[-1] in operators:
            formula = Operation(self.tokens.pop(), formula, part())
        return formula

    def _number(self) -> Formula:
        token = self.tokens.pop() if self.tokens else ""
        if token != "(":
            return _integer(token)
        formula = self._sum()
        if not self.tokens or self.tokens.pop() != ")":
            raise ValueError("a parenthesis doesn't close")
        return formula


def _integer(token: str) -> int:
    if not (number := float(token)).is_integer():
        raise ValueError(f"{token} is not a whole number")
    return int(number)
