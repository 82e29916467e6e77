"""Equality of a gold and an answer: the rules in the order of their cost."""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from dataclasses import dataclass, replace

from sage_cli.grading.mathematics.expression import compare, constant, same_equation
from sage_cli.grading.mathematics.notation import (
    defines,
    is_name,
    is_quantity,
    is_symbol,
    letters,
    normalise,
)
from sage_cli.grading.mathematics.numbers import Number, read_number
from sage_cli.grading.mathematics.structure import (
    Solutions,
    Structure,
    all_true,
    read_solutions,
    read_structure,
    same_items,
    split,
)
from sage_cli.grading.mathematics.units import read_unit, same_unit
from sage_cli.grading.mathematics.values import close, is_real
from sage_cli.grading.mathematics.wording import same_wording, stated

Prove = Callable[[str, str], bool]
"""(gold, answer), normalised, -> True if algebra finds them equal."""


_ANGULAR = re.compile(r"\\(?:sin|cos|tan|cot|sec|csc|cis)")
_EMPTY = r"\emptyset"
_NOTHING = re.compile(r"(?:\\text ?\{)? ?no (?:real )?solutions? ?\}?\Z", re.IGNORECASE)
_UNORDERED = ("set", "list", "either")
_ACCEPTED = {**dict.fromkeys(_UNORDERED, _UNORDERED), "()": ("list",)}
"""Kinds of answer that a kind of gold accepts: brackets may be left out, not exchanged."""
_RATIO = re.compile(r"(\d{1,9}):(\d{1,9})")


_MODULUS = re.compile(r"\(?\\(?:p|b)?mod ?\{?(\d{1,9})\}?\)?\Z|\(mod (\d{1,9})\)\Z")


_PRODUCT = re.compile(r"[a-z]{2,}")
_POINT = re.compile(r"[A-Z]'?(\(.*\))")
_REGION = re.compile(r"[<>≤≥≠∪∞]|\\(?:setminus|mathbb|cap|emptyset|backslash|notin)|real")

_MISREAD = re.compile(
    r"[°:'⨯⋀⋁‖¬≈…]|!!|\.\.|f\(|\^\{?(?:\*|\\(?:dagger|star|top|ast))"
    r"|\\frac ?\{(?:d|\\partial)(?![A-Za-z ]*_)"
    r"|\\(?:partial|nabla|p?mod|bmod|gcd|angle|triangle|oint|neg|lnot|not|to|equiv)(?![A-Za-z])"
)
"""What Math-Verify drops or takes for a product, a quotient or a power of letters."""


@dataclass(frozen=True)
class Equality:
    """The comparison of answers: with a relative tolerance or exact, with algebra or without."""

    tolerance: float | None = None
    prove: Prove | None = None

    def __call__(self, gold_text: str, answer_text: str) -> bool | None:
        """Return True if the answer equals the gold; both as written."""
        gold, answer = normalise(gold_text), normalise(answer_text)
        same = gold == answer != "" or self.equal(gold, stated(answer))
        if same or "," not in answer_text or "," not in gold_text:
            return same
        # 3, 500 is a list and 3,500 perhaps one, perhaps a number: as texts they are the same
        gold, answer = (normalise(text.replace(", ", ",")) for text in (gold_text, answer_text))
        return True if gold and gold == answer else same

    def equal(self, gold: str, answer: str) -> bool | None:
        """Return True if the normalised answer equals the normalised gold.

        The rules stand in the order of their cost, and the first that knows the gold decides.
        """
        if not answer or not gold:
            return False
        if ":" in gold:
            answer = re.sub(r"(?<=\d) ?(?:\\text ?\{ ?to ?\}|to) ?(?=\d)", ":", answer)
        if answer == gold or answer.lstrip("+") == gold.lstrip("+"):
            return True
        if (modulus := _MODULUS.search(answer)) and "mod" not in gold:
            residue = read_number(gold)
            if residue is None or not 0 <= residue.value < int(modulus[1] or modulus[2]):
                return False
            answer = re.sub(r"\\equiv ?", "=", answer[: modulus.start()]).strip()
        if "≈" in answer and "≈" not in gold:
            exact, rounded = _exact_and_rounded(answer)
            return self.equal(gold, exact or (rounded if self.tolerance is not None else ""))
        name, number = _named_number(gold)
        if number is not None:
            is_right = self._is_number(name, number, answer)
            # \frac{a}{b}=2 and xy=2 may be meant as equations, which later rules compare
            is_equation = not is_symbol(name) or (_PRODUCT.fullmatch(name) and "=" in answer)
            if is_right or not name or not is_equation or answer.startswith(f"{name}="):
                return is_right
        gold, answer = (_EMPTY if _NOTHING.fullmatch(text) else text for text in (gold, answer))
        if gold == answer:
            return True
        if (same := same_wording(gold, answer)) is not None:
            return same
        assigned = read_solutions(gold) if "=" in gold else None
        answered = read_solutions(answer) if "=" in answer else None
        if assigned and (answered or "=" not in answer or "∨" in answer):
            return self._are_solutions(assigned, answered, answer)
        if answered and "=" not in gold:
            return self.equal(gold, answered.as_answer())
        gold_structure, answer_structure = read_structure(gold), read_structure(answer)
        if (gold_structure.kind == "leaf") != (answer_structure.kind == "leaf"):
            same = self._leaf_beside_structure(gold, answer, gold_structure, answer_structure)
        else:
            same = self._same_structure(gold_structure, answer_structure)
        # an answer that is stated several times, the same each time: 1/2, 1/2
        unordered = [s.kind in _UNORDERED for s in (gold_structure, answer_structure)]
        if same is False and unordered == [False, True]:
            first, *others = answer_structure.items
            if not others or not all(_exactly(first, item) for item in others):
                return False
            return all_true(self.equal(gold, item) for item in answer_structure.items)
        return same

    def _is_number(self, name: str, gold: Number, answer: str) -> bool:
        """Return True if the answer is the number, once or repeated."""
        shape = read_structure(answer)
        if shape.kind not in _UNORDERED:
            return self._is_one_number(name, gold, answer)
        first = shape.items[0]
        return all(
            self._is_one_number(name, gold, item) and (item is first or _exactly(first, item))
            for item in shape.items
        )

    def _is_one_number(self, name: str, gold: Number, answer: str) -> bool:
        *before, last = split(answer, "=")
        if name == last and len(before) == 1:  # 5=x
            before, last = [last], before[0]
        written = _as_fraction(last) if gold.value.denominator > 1 else last
        number = read_number(written, spoken=True)
        if number is None or not same_unit(gold.unit, number.unit):
            return False
        # the percent sign may be left out: 25 beside 25%
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
        """Return True if values without names, or with the same names in any order, are the gold's."""  # noqa: E501
        if answered is None:
            return "=" not in answer and self.equal(gold.unnamed(), answer)
        if sorted(gold.names) != sorted(answered.names):
            return False
        return self.equal(gold.unnamed(), answered.in_order(gold.names).unnamed())

    def _same_structure(self, gold: Structure, answer: Structure) -> bool | None:
        if gold.name and answer.name and gold.name != answer.name:
            return False
        if gold.kind == "leaf":
            return self._same_leaf(gold.items[0], answer.items[0])
        if (gold.kind, answer.kind) == ("list", "()") and all(
            item.startswith("(") for item in gold.items
        ):
            answer = replace(answer, kind="list")
        if gold.kind != answer.kind and answer.kind not in _ACCEPTED.get(gold.kind, ()):
            return False
        if gold.kind == ":":
            return len(gold.items) == len(answer.items) and all_true(
                self._same_expression(
                    f"({part})*({answer.items[0]})", f"({gold.items[0]})*({other})"
                )
                for part, other in zip(gold.items, answer.items, strict=True)
            )
        if gold.ordered:
            same_length = len(gold.items) == len(answer.items)
            return same_length and all_true(map(self.equal, gold.items, answer.items))
        return same_items(gold.items, answer.items, self.equal, _exactly)

    def _leaf_beside_structure(
        self, gold: str, answer: str, gold_structure: Structure, answer_structure: Structure
    ) -> bool | None:
        """Compare a set of one with its element, a name with its structure, or two regions."""
        if _EMPTY in (gold, answer):  # and {∅}, which isn't empty
            return False
        if gold_structure.kind == "set" and len(gold_structure.items) == 1:
            return self.equal(gold_structure.items[0], answer)
        if answer_structure.kind == "set" and len(answer_structure.items) == 1:
            return self.equal(gold, answer_structure.items[0])
        if (named := _POINT.fullmatch(answer)) and gold_structure.kind == "()":
            return self.equal(gold, named[1])
        for leaf, whole in ((gold, answer), (answer, gold)):
            *names, last = split(leaf, "=")
            if names and all(map(is_name, names)) and read_structure(last).kind != "leaf":
                return self.equal(last, whole) if leaf is gold else self.equal(whole, last)
        if _REGION.search(gold) and _REGION.search(answer):
            return self._ask(gold, answer)
        return False

    def _same_leaf(self, gold: str, answer: str) -> bool | None:
        if "°" in gold + answer and not _ANGULAR.search(gold + answer):
            if compare(gold, answer):
                return True
            gold, answer = gold.replace("°", ""), answer.replace("°", "")
        (gold, gold_unit), (answer, unit) = _without_unit(gold), _without_unit(answer)
        if not same_unit(gold_unit, unit):
            return False
        if gold == answer:
            return True
        *gold_names, gold_last = split(gold, "=")
        *names, last = split(answer, "=")
        if gold_names:
            name = gold_names[0]
            if names and (len(letters(gold)) > 1 or not is_symbol(name)):
                return self._same_equation(gold, answer)
            if names and name != names[0]:
                return False
            # the value says it all behind a plain name, and a constant behind a quantity's
            if not (is_symbol(name) or (is_quantity(name) and not letters(gold_last))):
                return False
        if (number := read_number(gold_last)) is not None:
            return self._is_number(gold_names[0] if gold_names else "", number, answer)
        if not all(defines(member, last) or compare(member, last) for member in names):
            return False
        return self._same_expression(gold_last, last)

    def _same_expression(self, gold: str, answer: str) -> bool | None:
        if gold == answer:
            return True
        if self.tolerance is not None:
            values = constant(gold), constant(answer)
            if None not in values:
                return close(*values, self.tolerance)
        same = compare(gold, answer)
        if same and constant(gold) is not None:
            return True
        if same is False or ("∞" in gold) != ("∞" in answer) or letters(gold) != letters(answer):
            return False
        return same or self._ask(gold, answer)

    def _same_equation(self, gold: str, answer: str) -> bool | None:
        if letters(gold) != letters(answer):
            return False
        gold_sides, sides = split(gold, "="), split(answer, "=")
        if sorted(gold_sides) == sorted(sides):
            return True
        if gold_sides[0] == sides[0]:
            same_value = self.equal if ":" in gold_sides[-1] else self._same_expression
            if same_value(gold_sides[-1], sides[-1]):
                return True
        if len(gold_sides) == len(sides) == 2 and same_equation(gold_sides, sides):
            return True
        return self._ask(gold, answer)

    def _ask(self, gold: str, answer: str) -> bool | None:
        used = letters(gold) | letters(answer)  # Math-Verify reads N as n, and I as a number
        folded = any(c == "I" or (c.isupper() and c.lower() in used) for c in used)
        if folded or _MISREAD.search(gold) or _MISREAD.search(answer):
            return False
        return self.prove(gold, answer) if self.prove else None


def _named_number(gold: str) -> tuple[str, Number | None]:
    """Return the number that a gold is, and the name that it assigns it to."""
    name, equals, value = gold.rpartition("=")
    return ("", None) if equals and not is_quantity(name) else (name, read_number(value))


def _exact_and_rounded(text: str) -> tuple[str, str]:
    """Return the value before ≈, "" where the decimal isn't its own; and the decimal of a name."""
    exact, _, rounded = text.rpartition("≈")
    value, places = split(exact, "=")[-1], len(rounded.partition(".")[2])
    if not value or is_name(value):
        return "", f"{exact}={rounded}".lstrip("=")
    number, decimal = constant(value), constant(rounded)
    if number is None or decimal is None or not is_real(number):
        return exact, ""
    excess = (abs(float(number)) - abs(float(decimal))) * 10**places
    return exact if -0.501 <= excess < 1 else "", ""  # rounded, or cut off


def _as_fraction(text: str) -> str:
    """Return a ratio in lowest terms as a fraction, and anything else as it is."""
    ratio = _RATIO.fullmatch(text)
    return (
        f"{ratio[1]}/{ratio[2]}" if ratio and math.gcd(int(ratio[1]), int(ratio[2])) == 1 else text
    )


def _without_unit(text: str) -> tuple[str, str]:
    r"""`text` without the unit at its end, and the unit: 7\pi\text{ cm}^2 is 7\pi and cm^2."""
    begin = text.find(r"\text{")
    unit = read_unit(text[begin:]) if begin > 0 and text[begin - 1] not in "_^{" else None
    return (text[:begin].strip(), unit) if unit else (text, "")


def _exactly(gold: str, answer: str) -> bool:
    """Return True if two items say the same, without tolerance or algebra."""
    return Equality().equal(gold, answer) is True
