"""The same story with other numbers: those of text and formula found and re-drawn together."""

from __future__ import annotations

import random
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

from sage_cli.problems.generated.word_problems.formula import (
    Formula,
    apply,
    in_order,
    numbers,
    value,
    with_numbers,
)

_SMALL = tuple(
    "zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen "  # noqa: SIM905
    "fifteen sixteen seventeen eighteen nineteen".split()
)
_TENS = tuple("twenty thirty forty fifty sixty seventy eighty ninety".split())  # noqa: SIM905
_VALUES = {word: number for number, word in enumerate(_SMALL)}
_VALUES |= {word: 10 * number for number, word in enumerate(_TENS, 2)}
_WORD = "|".join(sorted([*_VALUES, "hundred", "thousand"], key=len, reverse=True))
_JOINT = "(?:[- ]|(?<=hundred) and |(?<=thousand) and )"
NUMERAL = re.compile(
    rf"\d+(?:,\d{{3}})*(?:\.\d+)?|\b(?:{_WORD})(?:{_JOINT}(?:{_WORD}))*\b", re.IGNORECASE
)


@dataclass(frozen=True, slots=True)
class Numeral:
    """A number where it stands in a text; `number` is None where it isn't a whole one."""

    start: int
    end: int
    text: str
    number: int | None


def numerals(text: str) -> list[Numeral]:
    """The numbers in `text`: `290`, `1,200`, `$3.00` (3), `forty-seven`, `two hundred six`.

    `2.5`, and words that follow each other without making one number, are there without a value.
    """
    return [
        Numeral(match.start(), match.end(), match[0], _read(match[0].lower()))
        for match in NUMERAL.finditer(text)
    ]


def rewritten(text: str, numerals: Sequence[Numeral], new: Mapping[int, int]) -> str:
    """`text` with the numbers that `new` maps replaced, words by words and figures by figures."""
    pieces, end = [], 0
    for numeral in numerals:
        if numeral.number is not None and numeral.number in new:
            pieces += [text[end : numeral.start], _like(numeral.text, new[numeral.number])]
            end = numeral.end
    return "".join([*pieces, text[end:]])


def spelled(number: int) -> str:
    """`number` below a million in English: 227 is `two hundred twenty-seven`."""
    for unit, name in ((1000, "thousand"), (100, "hundred")):
        if number >= unit:
            rest = f" {spelled(number % unit)}" if number % unit else ""
            return f"{spelled(number // unit)} {name}{rest}"
    if number < len(_SMALL):
        return _SMALL[number]
    ones = f"-{_SMALL[number % 10]}" if number % 10 else ""
    return _TENS[number // 10 - 2] + ones


def _like(old: str, number: int) -> str:
    if old[0].isdigit():
        return str(number) + (old[old.index(".") :] if "." in old else "")
    words = spelled(number)
    return words.capitalize() if old[0].isupper() else words


def _read(text: str) -> int | None:
    if text[0].isdigit():
        number = float(text.replace(",", ""))
        return int(number) if number.is_integer() else None
    words = [word for word in re.split("[- ]", text) if word != "and"]
    pairs = [pair for pair in pairwise(words) if _VALUES.keys() >= set(pair)]
    if not all(_joins(left, right) for left, right in pairs):
        return None
    thousands, below = 0, 0
    for word in words:
        if word == "thousand":
            thousands, below = 1000 * (below or 1), 0
        else:
            below = 100 * (below or 1) if word == "hundred" else below + _VALUES[word]
    return thousands + below


def _joins(left: str, right: str) -> bool:
    """Return True if two number words make one number: `forty seven`, not `two three`."""
    return _VALUES[left] >= 20 and 0 < _VALUES[right] < 10


LARGEST = 9_999
"""Numbers above it are left as they are."""
_LARGEST_RESULT = 999_999
_TRIES = 300


@dataclass(frozen=True, slots=True)
class WordProblem:
    """A story that asks for a number, and the formula that gives it."""

    question: str
    formula: Formula

    @property
    def answer(self) -> int:
        """The value of the formula."""
        answer = value(self.formula)
        assert answer is not None  # read_row lets no other formula through
        return answer


class Story:
    """A word problem whose numbers can be re-drawn as often as wanted.

    A number is the same in text and formula when its value is; a constant that the text doesn't
    give (seven days, a hundred cents) stays. 0 and 1 stay as well: `one` is more often a pronoun.
    """

    def __init__(self, problem: WordProblem) -> None:
        self._numerals: list[Numeral] = numerals(problem.question)
        places: dict[int, int] = {}
        for numeral in self._numerals:
            if numeral.number is not None:
                places.setdefault(numeral.number, numeral.start)
        self.problem = WordProblem(problem.question, in_order(problem.formula, places))
        self._drawn = sorted(number for number in places if 2 <= number <= LARGEST)
        self.has_numbers = any(number in self._drawn for number in numbers(problem.formula))
        """The text gives a number of the formula, so that re-drawing changes it."""

    def redrawn(self, rng: random.Random) -> WordProblem:
        """Numbers of about the same size with which the formula still makes sense.

        The problem as it is when `_TRIES` draws find none.
        """
        for _ in range(_TRIES):
            new = [_near(number, rng) for number in self._drawn]
            if len(set(new)) < len(new):
                continue  # two roles must stay two numbers
            mapping = dict(zip(self._drawn, new, strict=True))
            formula = with_numbers(self.problem.formula, mapping)
            if sensible(formula):
                question = rewritten(self.problem.question, self._numerals, mapping)
                return WordProblem(question, formula)
        return self.problem


def sensible(formula: Formula) -> bool:
    """Return True if every step gives a positive whole number and isn't trivial (times one)."""
    return _sensible_value(formula) is not None


def _sensible_value(formula: Formula) -> int | None:
    if isinstance(formula, int):
        return formula
    left, right = _sensible_value(formula.left), _sensible_value(formula.right)
    if left is None or right is None:
        return None
    result = apply(formula.operator, left, right)
    if not result or result > _LARGEST_RESULT:
        return None
    trivial = formula.operator in "*/" and (right == 1 or result == 1)
    return None if trivial else result


def _near(number: int, rng: random.Random) -> int:
    """A number with as many digits as `number`, now and then one fewer or more."""
    digits, chance = len(str(number)), rng.random()
    if digits == 1:
        return rng.randint(2, 9) if chance < 0.8 else rng.randint(10, 30)
    if chance < 0.15:
        digits -= 1
    elif chance > 0.95 and digits < 3:
        digits += 1
    return rng.randint(max(2, 10 ** (digits - 1)), 10**digits - 1)
