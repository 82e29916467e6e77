"""The same story with other numbers: text and formula re-drawn together."""

from __future__ import annotations

import random
from dataclasses import dataclass

from sage_cli.problems.generated.word_problems.formula import (
    Formula,
    apply,
    in_order,
    numbers,
    value,
    with_numbers,
)
from sage_cli.problems.generated.word_problems.numerals import Numeral, numerals, rewritten

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
