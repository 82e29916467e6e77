"""Amounts with a unit, which may be written in any unit of the same dimension.

A question that says the amount in another unit asks for a conversion, and then the amount in that
unit is not an answer: 2.5 kg to "How many grams are 2.5 kg?".
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache

from sage_cli.grading.mathematics.english import SMALL, TEXT
from sage_cli.grading.mathematics.expression import constant
from sage_cli.grading.mathematics.notation import normalise
from sage_cli.grading.mathematics.numbers import read_number
from sage_cli.grading.mathematics.structure import split
from sage_cli.grading.mathematics.units import Dimensions, is_unit, read_unit, unit_size
from sage_cli.grading.mathematics.values import Value, close, is_real

_DEGREES: Dimensions = frozenset({("degree", 1)})
_MASS: Dimensions = frozenset({("mass", 1)})
_POUND: Dimensions = frozenset({("pound", 1)})
_POUND_SIZE = Fraction("0.45359237")
_LADDERS = (
    "year month",
    "week day hour minute second",
    "mile yard foot inch",
    "kilometer meter",
    "kilogram gram",
    "pound ounce",
    "gallon quart pint cup",
    "dollar cent",
)
"""Units of which two that follow each other may make one quantity: 3 ft 6 in, but not 2 m, 30 cm,
which are perhaps a length and a width."""
_HALF = re.compile(r"\b(?:a )?half (?:an? )?(?=[a-z]{2})|\bone[- ]half (?:of )?(?:an? )?")
_AND_A_HALF = re.compile(rf"\b(\d+|{'|'.join(SMALL)}) and (?:a|one)[- ]half\b", re.IGNORECASE)
_ARTICLE = re.compile(r"\b[Aa]n? (?=[a-z]{2})")
_JOINED = re.compile(r"(?<=\d)(?:-(?=[A-Za-z])|~|\\[,;: ])")
_WORD = re.compile(r"[A-Za-z]+")
_ANGLE = re.compile(r"°|\\circ|π|\\pi(?![A-Za-z])|[$€£¢]")
_ENDS = ".,;:?!"
_TOKENS = 7
"""Words of the longest amount that is looked for in a question: two and a half square miles."""
_MOST_AMOUNTS = 300


@dataclass(frozen=True)
class Quantity:
    """An amount, in the base units of its dimensions, and the unit in which it was written."""

    amount: Value
    dimensions: Dimensions
    unit: str

    def equals(self, other: Quantity, tolerance: float | None) -> bool:
        """Return True if the other is the same amount, up to a relative tolerance."""
        return self.dimensions == other.dimensions and close(self.amount, other.amount, tolerance)


@lru_cache(maxsize=4096)
def read_quantity(text: str, *, spoken: bool = False) -> Quantity | None:
    r"""Return the amount that the normalised `text` is; None without a known unit.

    2 hours,30 minutes is one amount, and an expression with π alone is an angle in radians. As in
    `read_number`, bare letters count as units only if they are `spoken`.
    """
    if len(parts := split(text, ",")) > 1:
        return _compound(parts, spoken=spoken)
    number = read_number(_in_figures(text) if spoken else text, spoken=spoken)
    value: Value | None = None
    if number is not None:
        value, unit = number.value, number.unit
    else:
        text, unit = without_unit(text)
        # 5-7 years is a range, of which nobody wants the difference
        if "°" not in text and ("π" in text or (unit and "\\" in text)):
            value, unit = constant(text), unit or "radian"
    size = unit_size(unit) if unit else None
    if value is None or not is_real(value) or size is None or not size[1] or "%" in unit.split():
        return None
    if unit == "radian":
        degrees = constant(f"({text})*180/π") if number is None else None
        return None if degrees is None else Quantity(degrees, _DEGREES, unit)
    return Quantity(value * size[0], size[1], unit)


def same_amount(
    gold: Quantity, answer: Quantity, question: str, tolerance: float | None
) -> bool | None:
    """Return True if `answer` is the gold's amount, in a unit that the question leaves open.

    False if it is the gold's amount as the question says it, None for another amount.
    """
    gold, answer = _weighed(gold, answer), _weighed(answer, gold)
    if gold.dimensions != answer.dimensions or not gold.equals(answer, tolerance):
        return None
    if gold.unit == answer.unit:
        return True
    asked = {
        amount.unit
        # Exact, without the tolerance: a question's own amount is the same number in another unit,
        # and one nearby is another quantity of the task.
        for amount in amounts_in(question)
        if gold.equals(_weighed(amount, gold), None) and amount.unit != gold.unit
    }
    # of 150 minutes asked for in hours, 2 hours 30 minutes is an answer, and 9,000 seconds isn't
    shares_unit = not {*gold.unit.split(", ")}.isdisjoint(answer.unit.split(", "))
    return answer.unit not in asked and (not asked or shares_unit)


def without_unit(text: str) -> tuple[str, str]:
    r"""`text` without the unit at its end, and the unit: 7\pi\text{ cm}^2 is 7\pi and cm^2."""
    begin = text.find(r"\text{")
    unit = read_unit(text[begin:]) if begin > 0 and text[begin - 1] not in "_^{" else None
    return (text[:begin].strip(), unit) if unit else (text, "")


@lru_cache(maxsize=1024)
def amounts_in(question: str) -> tuple[Quantity, ...]:
    """Return the amounts that a question says, in figures or words: `half an hour`, `2.5-kg`."""
    text = TEXT.sub(r" \1 ", question.replace(r"\mathrm", r"\text"))
    tokens, amounts = _in_figures(_JOINED.sub(" ", text)).split(), list[Quantity]()
    ends = [n for n, token in enumerate(tokens) if _ANGLE.search(token) or _names_unit(token)]
    # bounded, since a question of a thousand units would be read eight thousand times
    for end in ends[:_MOST_AMOUNTS]:
        # An amount ends with its unit, and how many words before belong to it isn't known: every
        # start is tried, and readable ones of different lengths may stand beside each other.
        for begin in range(max(0, end - _TOKENS), end + 1):
            words = normalise(" ".join(tokens[begin : end + 1]).strip(_ENDS))
            if amount := read_quantity(words, spoken=True):
                amounts.append(amount)
    return tuple(amounts)


def _in_figures(text: str) -> str:
    """Return an hour, half an hour, two and a half hours as 1 hour, 1/2 hour, 2 1/2 hours."""
    text = _AND_A_HALF.sub(lambda m: f"{SMALL.get(m[1].lower(), m[1])} 1/2", text)
    return _ARTICLE.sub("1 ", _HALF.sub("1/2 ", text))


def _names_unit(token: str) -> bool:
    return any(map(is_unit, _WORD.findall(token)))


def _compound(parts: list[str], *, spoken: bool) -> Quantity | None:
    """Return the sum of amounts that stand beside each other: 2 hours and 30 minutes.

    90 minutes and 2 hours are two amounts, and so are 1 hour and 75 minutes: the units descend, and
    what is left for a smaller one is less than one of the larger.
    """
    numbers = [number for part in parts if (number := read_number(part, spoken=spoken))]
    units = [number.unit for number in numbers]
    ladder = next((steps.split() for steps in _LADDERS if {*units} <= {*steps.split()}), None)
    if len(numbers) < len(parts) or ladder is None:
        return None
    total, step, whole, dimensions = Fraction(0), None, True, _MASS
    for number in numbers:
        size, dimensions = (
            (_POUND_SIZE, _MASS) if number.unit == "pound" else unit_size(number.unit) or (0, _MASS)
        )
        amount = number.value * size
        if amount <= 0 or not whole or (step is not None and amount >= step):
            return None
        total, step, whole = total + amount, size, number.value % 1 == 0
    return Quantity(total, dimensions, ", ".join(units))


def _weighed(amount: Quantity, other: Quantity) -> Quantity:
    """Return pounds as a mass where the other amount is one: they are money elsewhere."""
    if amount.dimensions == _POUND and other.dimensions == _MASS and amount.unit == "pound":
        return Quantity(amount.amount * _POUND_SIZE, _MASS, amount.unit)
    return amount
