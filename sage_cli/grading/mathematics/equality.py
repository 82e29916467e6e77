"""Equality of answers: exact text, exact numbers, words, structure, values; algebra last.

The result is True, False, or None where only computer algebra could tell. Given `prove`, which asks
it, None doesn't occur.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from fractions import Fraction

from sage_cli.grading.mathematics.arithmetic import Value
from sage_cli.grading.mathematics.literal import Number, read_number
from sage_cli.grading.mathematics.names import defines, is_name, is_quantity, is_symbol, letters
from sage_cli.grading.mathematics.normalise import normalise
from sage_cli.grading.mathematics.numerical import close, constant, differ
from sage_cli.grading.mathematics.shape import Shape, read_shape, split
from sage_cli.grading.mathematics.solutions import Solutions, read_solutions
from sage_cli.grading.mathematics.units import read_unit, same_unit

Prove = Callable[[str, str], bool]
"""(gold, answer), normalised, -> whether algebra finds them equal."""

_MAX_DENOMINATOR = 10**6
_BASED = re.compile(r"(\d\w*|[A-F]+\w*(?=_\{1[1-6]\}))_\{(?:\\text\{)?(\d+)\}?\}")
_TEXT = re.compile(r"\\text\{([^{}]*)\}")
_WORDS = re.compile(r"\\text\{[^{}\d]*\}")
_CHOICE = re.compile(r"\(?([A-Z])\)?")
EMPTY = r"\emptyset"
_UNORDERED = ("set", "list", "either")
_ALSO = {**dict.fromkeys(_UNORDERED, _UNORDERED), "()": ("list",)}
"""Kinds of answer that a kind of gold accepts: brackets may be left out, not exchanged."""
_REGION = re.compile(r"[<>≤≥≠∪∞]|\\(?:setminus|mathbb|cap|emptyset|backslash)")


@dataclass(frozen=True)
class Equality:
    """How answers are compared: with a relative tolerance or exactly, with algebra or without."""

    tolerance: float | None = None
    prove: Prove | None = None

    def __call__(self, gold_text: str, answer_text: str) -> bool | None:
        """Whether the answer equals the gold; both as written."""
        same = self.equal(normalise(gold_text), normalise(answer_text))
        if same or "," not in gold_text or "," not in answer_text:
            return same
        # 3, 500 is a list and 3,500 perhaps one, perhaps a number: as texts they are the same
        closed = [normalise(text.replace(", ", ",")) for text in (gold_text, answer_text)]
        return same if closed[0] != closed[1] or not closed[0] else True

    def equal(self, gold: str, answer: str) -> bool | None:
        """Whether the normalised answer equals the normalised gold."""
        if not answer or not gold:
            return False
        if answer == gold:
            return True
        name, number = _number(gold)
        if number is not None:
            is_right = self._is_number(name, number, answer)
            if is_right or not name or is_symbol(name):
                return is_right
        if _WORDS.fullmatch(gold) or _CHOICE.fullmatch(gold):
            return _plain_word(gold) == _plain_word(answer)
        if text := _TEXT.fullmatch(gold):
            return text[1] == answer
        numerals = _BASED.fullmatch(gold), _BASED.fullmatch(answer)
        if numerals[0] or numerals[1]:
            return _digits(numerals[0]) == _digits(numerals[1])
        named = read_solutions(gold) if "=" in gold else None
        answered = read_solutions(answer) if "=" in answer else None
        if named and (answered or "=" not in answer or "∨" in answer):
            return self._are_solutions(named, answered, answer)
        if answered and "=" not in gold:
            return self.equal(gold, answered.as_answer())
        shapes = read_shape(gold), read_shape(answer)
        if "leaf" in (shapes[0].kind, shapes[1].kind) and shapes[0].kind != shapes[1].kind:
            same = self._leaf_beside_structure(gold, answer, *shapes)
        else:
            same = self._same_shape(*shapes)
        if same is False and shapes[1].kind in _UNORDERED and shapes[0].kind not in _UNORDERED:
            return self._named_again(gold, *shapes[1].items)
        return same

    def _named_again(self, gold: str, first: str, *others: str) -> bool | None:
        """Whether an answer that is given more than once, the same each time, equals the gold."""
        if not others or not all(_exactly(first, item) for item in others):
            return False
        return _all(self.equal(gold, item) for item in (first, *others))

    def _is_number(self, name: str, gold: Number, answer: str) -> bool:
        shape = read_shape(answer)
        if shape.kind not in _UNORDERED:
            return self._is_one_number(name, gold, answer)
        items = shape.items
        return all(
            self._is_one_number(name, gold, item) and (item is items[0] or _exactly(items[0], item))
            for item in items
        )

    def _is_one_number(self, name: str, gold: Number, answer: str) -> bool:
        if self.tolerance is not None:
            answer = answer.replace("≈", "=")
        *before, last = split(answer, "=")
        number = read_number(last)
        if number is None or not same_unit(gold.unit, number.unit):
            return False
        percent = (
            gold.unit == "%" and not number.unit and close(gold.bare, number.value, self.tolerance)
        )
        if not percent and not close(gold.value, number.value, self.tolerance):
            return False
        if name and before and is_name(before[0]) and before[0] != name:
            return False
        says_nothing = is_name if number.value else is_symbol  # x-y=0 says nothing of x-y
        return all(says_nothing(member) or self._is_value(number, member) for member in before)

    def _is_value(self, number: Number, member: str) -> bool:
        value = constant(member)
        return value is not None and any(
            close(exact, value, self.tolerance) for exact in (number.value, number.bare)
        )

    def _are_solutions(
        self, gold: Solutions, answered: Solutions | None, answer: str
    ) -> bool | None:
        """Whether values without names, or with the same names in any order, are the gold's."""
        if answered is None:
            return "=" not in answer and self.equal(gold.unnamed(), answer)
        if sorted(gold.names) != sorted(answered.names):
            return False
        return self.equal(gold.unnamed(), answered.in_order(gold.names).unnamed())

    def _same_shape(self, gold: Shape, answer: Shape) -> bool | None:
        if gold.name and answer.name and gold.name != answer.name:
            return False
        if gold.kind == "leaf" and answer.kind == "leaf":
            return self._same_leaf(gold.items[0], answer.items[0])
        if gold.kind != answer.kind and answer.kind not in _ALSO.get(gold.kind, ()):
            return False
        if gold.ordered:
            same_length = len(gold.items) == len(answer.items)
            return same_length and _all(map(self.equal, gold.items, answer.items))
        return self._same_items(gold.items, answer.items)

    def _leaf_beside_structure(
        self, gold: str, answer: str, gold_shape: Shape, answer_shape: Shape
    ) -> bool | None:
        """A set of one beside its element, a name that a structure is assigned to, a region."""
        if EMPTY in (gold, answer):  # and {∅}, which isn't empty
            return False
        if gold_shape.kind == "set" and len(gold_shape.items) == 1:
            return self.equal(gold_shape.items[0], answer)
        if answer_shape.kind == "set" and len(answer_shape.items) == 1:
            return self.equal(gold, answer_shape.items[0])
        for leaf, other in ((gold, answer), (answer, gold)):
            *names, last = split(leaf, "=")
            if names and all(map(is_name, names)) and read_shape(last).kind != "leaf":
                return self.equal(last, other) if leaf is gold else self.equal(other, last)
        if _REGION.search(gold) and _REGION.search(answer):
            return self._ask(gold, answer)
        return False

    def _ask(self, gold: str, answer: str) -> bool | None:
        return self.prove(gold, answer) if self.prove else None

    def _same_items(self, gold: Sequence[str], answer: Sequence[str]) -> bool | None:
        """Whether the answer's items are the gold's in some order, some of them named again."""
        names = _names(gold)
        if len(answer) < len(gold) or (not names and len(_names(answer)) > 1):
            return False
        again = len(answer) > len(gold) and len(names) < 2 and not _any_twice(gold)
        left, unsure = list(gold), False
        found: list[str] = []
        for item in answer:
            results = [self.equal(candidate, item) for candidate in left]
            if True in results:
                del left[results.index(True)]
                found.append(item)
            elif None in results:
                unsure = True
            elif not (again and self._names_again(item, found, gold)):
                return False
        return None if unsure else not left

    def _names_again(self, item: str, found: Sequence[str], gold: Sequence[str]) -> bool:
        """Whether an item is one that was found; in x=1, y=1 the second isn't the gold's x=1."""
        return any(_exactly(one, item) for one in found) and any(
            self.equal(candidate, item) for candidate in gold
        )

    def _same_leaf(self, gold: str, answer: str) -> bool | None:
        (gold, unit), (answer, other) = _apart(gold), _apart(answer)
        if not same_unit(unit, other):
            return False
        if gold == answer:
            return True
        *gold_names, gold_last = split(gold, "=")
        *names, last = split(answer, "=")
        if gold_names and names and (len(letters(gold)) > 1 or not is_symbol(gold_names[0])):
            return self._same_equation(gold, answer)
        if gold_names and names and gold_names[0] != names[0]:
            return False
        if gold_names and not _may_be_left_out(gold_names[0], gold_last):
            return False
        if (number := read_number(gold_last)) is not None:
            return self._is_number(gold_names[0] if gold_names else "", number, answer)
        if not all(defines(member, last) or differ(member, last) is False for member in names):
            return False
        return self._same_expression(gold_last, last)

    def _same_expression(self, gold: str, answer: str) -> bool | None:
        if gold == answer:
            return True
        if ("∞" in gold) != ("∞" in answer) or letters(gold) != letters(answer):
            return False
        values = constant(gold), constant(answer)
        if self.tolerance is not None and values[0] is not None and values[1] is not None:
            return close(values[0], values[1], self.tolerance)
        if differ(gold, answer) or _is_rounded(*values):
            return False
        return self._ask(gold, answer)

    def _same_equation(self, gold: str, answer: str) -> bool | None:
        if letters(gold) != letters(answer):
            return False
        sides, others = split(gold, "="), split(answer, "=")
        if sorted(sides) == sorted(others):
            return True
        if sides[0] == others[0] and self._same_expression(sides[-1], others[-1]):
            return True
        return self._ask(gold, answer)


def _number(gold: str) -> tuple[str, Number | None]:
    """The number that a gold is, and the name that it assigns it to."""
    name, equals, value = gold.rpartition("=")
    if equals and not is_quantity(name):
        return "", None
    return name, read_number(value)


def _is_rounded(gold: Value | None, answer: Value | None) -> bool:
    """Whether one is a decimal of many places and the other a number that may be irrational."""
    for exact, other in ((gold, answer), (answer, gold)):
        if isinstance(exact, Fraction) and isinstance(other, complex):
            return exact.denominator > _MAX_DENOMINATOR
    return False


def _may_be_left_out(name: str, value: str) -> bool:
    """Whether the value says it all: behind a plain name, or a constant behind a quantity's."""
    return is_symbol(name) or (is_quantity(name) and not letters(value))


def _plain_word(text: str) -> str:
    """Letters of choices keep their case, words lose it."""
    text = _TEXT.sub(r"\1", text).strip(" {}")
    if choice := _CHOICE.fullmatch(text):
        return choice[1]
    return text if len(text) == 1 else re.sub(r"[\s.]", "", text).casefold()


def _digits(numeral: re.Match[str] | None) -> tuple[str, str] | None:
    return (numeral[1].lstrip("0").upper() or "0", numeral[2]) if numeral else None


def _apart(text: str) -> tuple[str, str]:
    r"""`text` without the unit at its end, and the unit: 7\pi\text{ cm}^2 is 7\pi and cm^2."""
    place = text.find(r"\text{") if text[-1:] not in "°" else len(text) - 1
    unit = read_unit(text[place:]) if place > 0 and text[place - 1] not in "_^{" else None
    return (text[:place].strip(), unit) if unit else (text, "")


def _names(items: Sequence[str]) -> set[str]:
    """What items are assigned to."""
    return {parts[0] for item in items if len(parts := split(item, "=")) > 1}


def _exactly(one: str, other: str) -> bool:
    """Whether two items say the same, without tolerance or algebra."""
    return Equality().equal(one, other) is True


def _any_twice(items: Sequence[str]) -> bool:
    return any(_exactly(one, other) for i, one in enumerate(items) for other in items[:i])


def _all(results: Iterable[bool | None]) -> bool | None:
    unsure = False
    for result in results:
        if result is False:
            return False
        unsure = unsure or result is None
    return None if unsure else True
