"""Equality of a gold and an answer: the rules in the order of their cost."""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Final, Literal, NamedTuple

from sage_cli.grading.mathematics.bound import BINDER, rename_bound
from sage_cli.grading.mathematics.expression import (
    compare_expressions,
    constant,
    same_equation,
    same_sum,
)
from sage_cli.grading.mathematics.items import all_true, same_items
from sage_cli.grading.mathematics.names import defines, is_name, is_quantity, is_symbol, letters
from sage_cli.grading.mathematics.notation import GREEK, in_digits_of, normalise
from sage_cli.grading.mathematics.numbers import Number, is_counted, read_number, with_point, within
from sage_cli.grading.mathematics.pieces import read_pieces, same_pieces
from sage_cli.grading.mathematics.products import same_order
from sage_cli.grading.mathematics.quantities import read_quantity, same_amount, without_unit
from sage_cli.grading.mathematics.regions import read_region, same_region
from sage_cli.grading.mathematics.sentences import stated
from sage_cli.grading.mathematics.solutions import as_answer, read_solutions, unnamed
from sage_cli.grading.mathematics.structure import Structure, read_structure, split
from sage_cli.grading.mathematics.units import read_unit, same_unit
from sage_cli.grading.mathematics.values import close, is_real
from sage_cli.grading.mathematics.wording import same_wording

Prove = Callable[[str, str], bool]
"""(gold, answer), normalised, -> True if algebra finds them equal."""

_UNIT_VECTOR = re.compile(r"\\hat\{([ijk])\}")
NOT_MINE: Final = "not mine"
"""A rule's answer about texts that it doesn't know: the next rule is asked."""
Ruling = bool | Literal["not mine"] | None
"""What a rule says: None if it knows the texts, but only algebra can compare them."""

_NAMES = re.compile(r"\\text ?\{[^{}]*\}|\\[A-Za-z]+|[A-Z]")
_ANGULAR = re.compile(r"\\(?:sin|cos|tan|cot|sec|csc|cis)")
_EMPTY = r"\emptyset"
_NOTHING = re.compile(
    r"(?:\\text ?\{)? ?(?:no (?:real )?solutions?|(?:the )?empty set) ?\}?\Z", re.IGNORECASE
)
_UNORDERED = ("set", "list", "either")
_ACCEPTED = {**dict.fromkeys(_UNORDERED, _UNORDERED), "()": ("list",)}
"""Kinds of answer that a kind of gold accepts: brackets may be left out, not exchanged."""
_BY_CASES = re.compile(r"\\begin ?\{(?:[dr]?cases|array)\}|(?<![A-Za-z])if(?![A-Za-z])")
_ORDER = re.compile(r"([<>≤≥])")
_SUM = re.compile(r"\\(?:sum|prod)_")
_UNCOMPUTED = re.compile(r"\\(?:sum|prod|int|lim)(?![a-z])")
_RATIO = re.compile(r"(\d{1,9}):(\d{1,9})")
_RATIO_TO = re.compile(r"(?<=\d) ?(?:\\text ?\{ ?to ?\}|to) ?(?=\d)")
_RATIO_TO_ONE = re.compile(r"\d{1,9}:1")
_SPAN = re.compile(r"(\d+(?:\.\d+)?(?:-\d+(?:\.\d+)?)+)(.*)", re.ASCII)
_HYPHEN = re.compile(
    r"(?:[%°]| ?\\text ?\{[a-z ]*\})? ?(?:\\text ?\{ ?)?(?:-{1,3}|to) ?\}? ?(?=\d)"
)
_OPPOSITE = str.maketrans("+-", "-+")
_MODULUS = re.compile(r"\(?(?:\\[pb]?mod|\(mod|\\text ?\{ ?mod ?\}) ?\{?(\d{1,9})\}?\)?\Z")
_DECIMAL = re.compile(r"(-?\d+(?:\.(\d+))?)(?:\.\.\.|\\ldots)?")
_DENOMINATOR = re.compile(r"(\\frac\{[^{}]*\})\{[^{}]*\}")
_ARGUMENT = re.compile(r"([A-Za-z])\(([a-z])\)")
_INVERSE = re.compile(r"[A-Z]\^(?:\{-1\}|\{?[Tn\d]\}?)")
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
    """The comparison of answers: with a relative tolerance or exact, with algebra or without.

    An amount that the `question` says is not an answer to a gold in another unit.
    """

    tolerance: float | None = None
    prove: Prove | None = None
    question: str = ""

    def __call__(self, gold_text: str, answer_text: str) -> bool | None:
        """Return True if the answer equals the gold; both as written."""
        # before anything reads a digit: a gold in Arabic-Indic digits asks for an answer in them or
        # in 0 to 9, and the rules know the latter alone
        answer_text = in_digits_of(gold_text, answer_text)
        gold_text = in_digits_of(gold_text, gold_text)
        gold, answer = _with_unit_vectors(gold_text, normalise(gold_text), normalise(answer_text))
        same = gold == answer != "" or self.equal(gold, stated(answer))
        # products of matrices do not commute, but algebra would reorder them; the gold is read as
        # written, because bold letters show its matrices
        if not same_order(gold_text, gold, stated(answer)):
            return False
        # what follows is about commas alone, which mean thousands, decimals or a list; everything
        # else is decided
        if same or "," not in answer_text:
            return same
        number, decimal = read_number(gold), with_point(answer_text)
        if decimal and number and number.value % 1:  # 3,0 may be two values, 2,74 for 2.74 isn't
            return self.equal(gold, normalise(decimal))
        if "," not in gold_text:
            return same
        # 3, 500 is a list and 3,500 perhaps one, perhaps a number: as texts they are the same
        gold, answer = (normalise(text.replace(", ", ",")) for text in (gold_text, answer_text))
        return True if gold and gold == answer else same

    def equal(self, gold: str, answer: str) -> bool | None:
        """Return True if the normalised answer equals the normalised gold.

        The first rule of RULES that knows the gold decides. None where only algebra can.
        """
        if not answer or not gold:
            return False
        gold, answer = _aligned(gold, answer)
        for rule in RULES:
            same = rule.compare(self, gold, answer)
            if not isinstance(same, str):
                return same
        return False

    def deciding_rule(self, gold: str, answer: str) -> str:
        """Return the name of the rule by which `equal` decides on two normalised texts."""
        gold, answer = _aligned(gold, answer)
        rules = (rule for rule in RULES if rule.compare(self, gold, answer) != NOT_MINE)
        return next(rules).name

    def _same_text(self, gold: str, answer: str) -> Ruling:
        # different texts decide nothing: they are the other rules' business
        return True if answer == gold or answer.lstrip("+") == gold.lstrip("+") else NOT_MINE

    def _same_residue(self, gold: str, answer: str) -> Ruling:
        r"""Compare 5 \pmod 7 with another residue of 7; the modulus may be left out."""
        if "mod" not in gold + answer or not (_MODULUS.search(gold) or _MODULUS.search(answer)):
            return NOT_MINE
        (gold, modulus), (answer, other) = map(_residue, (gold, answer))
        if modulus == other:
            # residues are equal modulo 7, while numbers are not: the answer's is replaced by the
            # gold's, so that what stands around both is compared by the usual rules
            numbers = [read_number(split(text, "=")[-1]) for text in (gold, answer)]
            values = [number.value for number in numbers if number]
            if len(values) == 2 and (values[0] - values[1]) % modulus == 0:
                answer = answer[: answer.rfind("=") + 1] + str(values[0])
        # one side has no modulus: only the canonical residue, 0 to m - 1, says the same without it;
        # 12 for 5 (mod 7) could be any number
        elif (number := read_number(answer)) is None or not 0 <= number.value < (modulus or other):
            return False
        return not (modulus and other and modulus != other) and self.equal(gold, answer)

    def _same_rounded(self, gold: str, answer: str) -> Ruling:
        """Compare a value that stands before ≈ and its decimal, or a decimal alone."""
        if "≈" not in gold and "≈" not in answer:
            return NOT_MINE
        exact, rounded = _exact_and_rounded(gold)
        value, decimal = _exact_and_rounded(answer)
        # pi ≈ 3.2: whoever rounds wrongly contradicts the value before the sign
        if "≈" in answer and not decimal and _DECIMAL.fullmatch(answer.rpartition("≈")[2]):
            return False  # isn't the value rounded
        if rounded:
            return self.equal(rounded, value or decimal) or (
                bool(exact) and self.equal(exact, value)
            )
        # the gold is exact: a decimal alone is only as good as a tolerance allows, so without one
        # the exact value must be there
        if value or self.tolerance is None:
            return bool(decimal and value) and self.equal(gold, value)
        return self.equal(gold, decimal)

    def _same_quantity(self, gold: str, answer: str) -> Ruling:
        """Return True if the answer is the gold's amount in another unit, such as 2500 g for 2.5
        kg.

        Other amounts may still be equal by a rule that looks at names and chains.
        """
        name, _, last = gold.rpartition("=")
        quantity = read_quantity(last)
        if quantity is None:
            return NOT_MINE
        *before, last = split(answer, "=")
        if name and before and is_name(before[0]) and before[0] != name:
            return NOT_MINE
        # all members of a chain such as 2.5 kg = 2500 g must be the gold's amount: an answer that
        # gives two different ones is not an answer
        values = [*(member for member in before if not is_name(member)), last]
        amounts = [read_quantity(member, spoken=True) for member in values]
        same = [
            amount and same_amount(quantity, amount, self.question, self.tolerance)
            for amount in amounts
        ]
        # None: a member is not an amount that can be converted; the rule about numbers compares it
        # with its unit as written
        return NOT_MINE if None in same else all(same)

    def _same_pieces(self, gold: str, answer: str) -> Ruling:
        """Compare a function by cases, by its values or row by row."""
        expected = read_pieces(gold) if _BY_CASES.search(gold) else None
        if expected is None:
            return NOT_MINE
        pieces = read_pieces(answer)
        if pieces is None:
            *names, last = split(answer, "=")
            return all(map(is_name, names)) and same_pieces(expected, last) is True
        same = same_pieces(expected, pieces)
        if same is not None or len(pieces) != len(expected):
            return same is True
        # conditions that are not intervals (n even, x in A) are compared row by row as tuples, in
        # any order
        rows, others = (
            [f"({piece.value},{piece.condition or 'otherwise'})" for piece in side]
            for side in (expected, pieces)
        )
        return same_items(rows, others, self.equal, _exactly)

    def _same_ratio_to_one(self, gold: str, answer: str) -> Ruling:
        """Refuse 10 for 10:1, which is not a number of things; 2/3 is the ratio 2:3."""
        return False if _RATIO_TO_ONE.fullmatch(gold) and answer.isdigit() else NOT_MINE

    def _same_number(self, gold: str, answer: str) -> Ruling:
        """Compare numbers and what stands behind them; no other rule is asked about a number.

        \\frac{a}{b}=2 and xy=2 may be meant as equations, which later rules compare.
        """
        name, number = _named_number(gold)
        if number is None:
            return NOT_MINE
        is_right = self._is_number(name, number, answer)
        is_equation = not is_symbol(name) or (_PRODUCT.fullmatch(name) and "=" in answer)
        # a product of letters before = may be one name, of which the gold gives the value, or an
        # equation: as an equation it is compared later, unless the answer names the value in the
        # same way
        decides = is_right or not name or not is_equation or answer.startswith(f"{name}=")
        return is_right if decides else NOT_MINE

    def _same_words(self, gold: str, answer: str) -> Ruling:
        """Compare words, choices, numerals in a base, times and dates."""
        same = same_wording(gold, answer)
        return NOT_MINE if same is None else same

    def _same_span(self, gold: str, answer: str) -> Ruling:
        """Compare a range, a date or a score: nobody leaves such a sum uncomputed.

        In 5-3 m is m a variable.
        """
        span, other = (_SPAN.fullmatch(_HYPHEN.sub("-", text)) for text in (gold, answer))
        if span is None or (unit := read_unit(span[2], spoken=len(span[2]) > 3)) is None:
            return NOT_MINE
        own = read_unit(other[2], spoken=True) if other and other[1] == span[1] else None
        return own is not None and same_unit(unit, own)

    def _same_region(self, gold: str, answer: str) -> Ruling:
        """Compare parts of the real line by their ends."""
        if not (_REGION.search(gold) or _REGION.search(answer)):
            return NOT_MINE
        regions = read_region(gold), read_region(answer)
        if not regions[0] or not regions[1]:
            return NOT_MINE
        # a name may be left out, but x>2 and t>2 are about different unknowns
        names = regions[0][1] | regions[1][1]
        return len(names) < 2 and same_region(regions[0][0], regions[1][0])

    def _same_chain(self, gold: str, answer: str) -> Ruling:
        """Compare chains of inequalities, such as 0<a<b and b>a>0, or leave others undecided."""
        chains = _ascending(gold), _ascending(answer)
        if chains[0] is None or chains[1] is None or chains[0][1] != chains[1][1]:
            return NOT_MINE
        # unequal members don't decide: the chain may be an interval of one name, which the last
        # rule compares
        return all_true(map(self.equal, chains[0][0], chains[1][0])) or NOT_MINE

    def _same_solutions(self, gold: str, answer: str) -> Ruling:
        """Compare values of several unknowns: without names, or with the same in any order."""
        assigned = read_solutions(gold) if "=" in gold else None
        answered = read_solutions(answer) if "=" in answer else None
        if assigned and (answered or "=" not in answer or "∨" in answer):
            names = assigned[0].keys()
            # without names the values count in the order in which the gold's names stand
            if answered is None:
                return "=" not in answer and self.equal(unnamed(assigned, names), answer)
            return names == answered[0].keys() and self.equal(
                unnamed(assigned, names), unnamed(answered, names)
            )
        if answered and "=" not in gold:
            return self.equal(gold, as_answer(answered))
        return NOT_MINE

    def _same_outermost(self, gold: str, answer: str) -> Ruling:
        """Compare tuples, sets, lists, matrices by their members, and single values."""
        gold_structure, answer_structure = read_structure(gold), read_structure(answer)
        if (gold_structure.kind == "leaf") != (answer_structure.kind == "leaf"):
            same = self._leaf_beside_structure(gold, answer, gold_structure, answer_structure)
        else:
            same = self._same_structure(gold_structure, answer_structure)
        # an answer that is stated several times, the same each time: 1/2, 1/2
        unordered = [s.kind in _UNORDERED for s in (gold_structure, answer_structure)]
        if same is False and unordered == [False, True]:
            # the repetition must be exact: with a tolerance, 0.33, 1/3 would be two attempts at one
            # gold
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
        # x-5=0 gives x as clearly as x=5 does; any further step (2x=10) is left to the reader, who
        # asked for the value
        if name and len(before) == 1 and (solved := _solved(name, before[0], last)):
            before, last = [name], solved
        # 2:3 is 2/3 where the gold is a fraction; beside a whole number it stays a ratio, since 4:2
        # is not the answer 2
        written = _as_fraction(last) if gold.value.denominator > 1 else last
        number = read_number(written, spoken=True)
        if number is None or not same_unit(gold.unit, number.unit):
            return False
        # 27 marbles are 27, and `27 excluded` is not
        if not is_counted(number, gold.unit):
            return False
        # the percent sign may be left out: 25 beside 25%
        percent = not number.unit and within(gold.bare, number.value, self.tolerance)
        if not percent and not within(gold.value, number.value, self.tolerance):
            return False
        if name and before and is_name(before[0]) and before[0] != name:
            return False
        says_nothing = is_name if number.value else is_symbol  # x-y=0 says nothing of x-y
        values = [constant(member) for member in before if not says_nothing(member)]
        return all(
            value is not None
            and any(close(exact, value, self.tolerance) for exact in (number.value, number.bare))
            for value in values
        )

    def _same_structure(self, gold: Structure, answer: Structure) -> bool | None:
        # a name that one side leaves out is not a contradiction
        if gold.name and answer.name and gold.name != answer.name:
            return False
        if gold.kind == "leaf":
            return self._same_leaf(gold.items[0], answer.items[0])
        # points are written (1,2),(3,4), and as a tuple of tuples ((1,2),(3,4)) by some
        if (gold.kind, answer.kind) == ("list", "()") and all(
            item.startswith("(") for item in gold.items
        ):
            answer = replace(answer, kind="list")
        if gold.kind != answer.kind and answer.kind not in _ACCEPTED.get(gold.kind, ()):
            return False
        if gold.kind == ":":
            return len(gold.items) == len(answer.items) and all_true(
                self._same_expression(
                    # a:b = c:d as a d = c b, so that no division by 0 is asked of algebra
                    f"({part})*({answer.items[0]})",
                    f"({gold.items[0]})*({other})",
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
        # only the same text is equal to the empty set, which an earlier rule has seen
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
            if (
                names
                and all(is_name(n) or _INVERSE.fullmatch(n) for n in names)
                and read_structure(last).kind != "leaf"
            ):
                return self.equal(last, whole) if leaf is gold else self.equal(whole, last)
        if _REGION.search(gold) and _REGION.search(answer):
            return self._ask(gold, answer)
        return False

    def _same_leaf(self, gold: str, answer: str) -> bool | None:
        if "°" in gold + answer and not _ANGULAR.search(gold + answer):
            # 30° and π/6 are compared as numbers (° is π/180); if neither has π, the sign may have
            # been left out, and both are degrees
            if compare_expressions(gold, answer) or "π" in _DENOMINATOR.sub(r"\1", gold + answer):
                return compare_expressions(gold, answer)
            gold, answer = gold.replace("°", ""), answer.replace("°", "")
        (gold, gold_unit), (answer, unit) = without_unit(gold), without_unit(answer)
        if not same_unit(gold_unit, unit):
            return False
        if gold == answer:
            return True
        *gold_names, gold_last = split(gold, "=")
        *names, last = split(answer, "=")
        if gold_names:
            name = gold_names[0]
            # y names the value of f(x), unless there is another y
            if names == ["y"] and _ARGUMENT.fullmatch(name) and "y" not in letters(gold + last):
                return self._same_expression(gold_last, last)
            if names and (renamed := _with_argument_of(name, names[0], answer, letters(gold))):
                return self._same_leaf(gold, renamed)
            # y=2x is a curve, of which 2x-y=0 is another equation: compared as equations. x=5 is a
            # value, and needs no algebra.
            if names and (len(letters(gold)) > 1 or not is_symbol(name)):
                return self._same_equation(gold, answer)
            if names and name != names[0]:
                return False
            # the value says it all behind a plain name, and a constant behind a quantity's
            if not (is_symbol(name) or (is_quantity(name) and not letters(gold_last))):
                return False
        if (number := read_number(gold_last)) is not None:
            return self._is_number(gold_names[0] if gold_names else "", number, answer)
        # numeric comparison evaluates a sum term by term, which may take as long as algebra: the
        # quick judge leaves it undecided
        if self.prove is None and any(map(_SUM.search, names)):
            return None
        if not all(
            defines(member, last) or compare_expressions(member, last) or same_sum(member, last)
            for member in names
        ):
            return False
        return self._same_expression(gold_last, last)

    def _same_expression(self, gold: str, answer: str) -> bool | None:
        if gold == answer:
            return True
        if gold.lstrip("+-") == "∞":  # algebra takes ∞+1 for ∞
            return False
        if self.tolerance is not None:
            values = constant(gold), constant(answer)
            if None not in values:
                return close(*values, self.tolerance)
        if _SUM.search(gold):
            if self.prove is None:
                return None
            if (same := same_sum(gold, answer)) is not None:
                return same
        same = compare_expressions(gold, answer)
        # constants that agree to many digits are equal; expressions with letters agree at sampled
        # points, which algebra has to confirm below
        if same and constant(gold) is not None:
            return True
        if same is False or ("∞" in gold) != ("∞" in answer) or letters(gold) != letters(answer):
            return False
        return same or self._ask(gold, answer)

    def _same_equation(self, gold: str, answer: str) -> bool | None:
        if letters(gold) != letters(answer):
            return False
        gold_sides, sides = split(gold, "="), split(answer, "=")
        # a=b and b=a
        if sorted(gold_sides) == sorted(sides):
            return True
        if gold_sides[0] == sides[0]:
            # a ratio is a structure, which `_same_expression` would read as a division
            same_value = self.equal if ":" in gold_sides[-1] else self._same_expression
            if same_value(gold_sides[-1], sides[-1]):
                return True
        if len(gold_sides) == len(sides) == 2:
            same = same_equation(gold_sides, sides)
            if same is not None:
                return same
        return self._ask(gold, answer)

    def _ask(self, gold: str, answer: str) -> bool | None:
        # never ask about notation that Math-Verify drops or reads as something else: it would find
        # unequal answers equal, which is worse than to miss an equal one
        if _MISREAD.search(gold) or _MISREAD.search(answer):
            return False
        if _UNCOMPUTED.search(answer) and not _UNCOMPUTED.search(gold):
            return False  # algebra would compute what the answer leaves to do
        # None tells a caller without algebra that the text is not wrong, only undecided
        return self.prove(*_with_distinct_letters(gold, answer)) if self.prove else None


class Rule(NamedTuple):
    """A rule of equality: its name, and its comparison of two normalised texts."""

    name: str
    compare: Callable[[Equality, str, str], Ruling]


RULES = (
    Rule("the same text", Equality._same_text),
    Rule("residues", Equality._same_residue),
    Rule("a value and its decimal", Equality._same_rounded),
    Rule("an amount in another unit", Equality._same_quantity),
    Rule("a function by cases", Equality._same_pieces),
    Rule("a ratio to one", Equality._same_ratio_to_one),
    Rule("a number", Equality._same_number),
    Rule("words, choices, dates", Equality._same_words),
    Rule("a range or a score", Equality._same_span),
    Rule("parts of the real line", Equality._same_region),
    Rule("a chain of inequalities", Equality._same_chain),
    Rule("solutions of several unknowns", Equality._same_solutions),
    Rule("structures and values", Equality._same_outermost),
)
"""The rules of equality, in the order of their cost and of what they know: the first that knows the
gold decides, so that 3-4 is a score before anything computes -1, and a number is never anything
else. The last one knows everything."""


def _aligned(gold: str, answer: str) -> tuple[str, str]:
    """Return both in what is one notation beside the other: ratios, bound names, nothing."""
    if ":" in gold:
        # '2 to 3' is a ratio only where the gold has one; elsewhere it is a range
        answer = _RATIO_TO.sub(":", answer)
    # the index of a sum and the variable of an integral have no meaning outside: both sides get the
    # same names
    if BINDER.search(gold) and BINDER.search(answer):
        gold, answer = rename_bound(gold, answer)
    return (
        _EMPTY if _NOTHING.fullmatch(gold) else gold,
        _EMPTY if _NOTHING.fullmatch(answer) else answer,
    )


def _with_unit_vectors(written: str, gold: str, answer: str) -> tuple[str, str]:
    """Return both with plain i, j, k where one has them plain and the gold allows it.

    It does if its vectors are bold, which a plain text can't show, or if two of the letters stand
    there, so that nobody takes them for variables.
    """
    hatted = [bool(_UNIT_VECTOR.search(text)) for text in (gold, answer)]
    if hatted[0] == hatted[1]:
        return gold, answer
    plain = answer if hatted[0] else gold
    if "hat" in written and len(letters(plain) & {"j", "k"} | ({"i"} & set(plain))) < 2:
        return gold, answer
    return _UNIT_VECTOR.sub(r"\1", gold), _UNIT_VECTOR.sub(r"\1", answer)


def _named_number(gold: str) -> tuple[str, Number | None]:
    """Return the number that a gold is, and the name that it assigns it to."""
    name, equals, value = gold.rpartition("=")
    return ("", None) if equals and not is_quantity(name) else (name, read_number(value))


def _with_argument_of(name: str, other: str, answer: str, taken: frozenset[str]) -> str | None:
    """Return f(y)=y, whose left side is `other`, as f(x)=x where `name` is f(x)."""
    function, same = _ARGUMENT.fullmatch(name), _ARGUMENT.fullmatch(other)
    if not function or not same or function[1] != same[1] or same[2] in taken:
        return None
    # renaming y to x would catch an x that is already there
    if function[2] in letters(answer):
        return None
    return re.sub(rf"(?<![\\A-Za-z]){same[2]}(?![A-Za-z])", function[2], answer)


def _ascending(text: str) -> tuple[list[str], list[str]] | None:
    """Return the members of a<b≤c, or of c≥b>a, from the smallest, and the relations."""
    if not _ORDER.search(text) or "," in text or "∨" in text:
        return None
    parts = _ORDER.split(text)
    members, relations = parts[::2], parts[1::2]
    if len(relations) > 1 and all(relation in ">≥" for relation in relations):
        # read from the right, so that a chain has one direction
        members, relations = members[::-1], ["<≤"[">≥".index(r)] for r in relations[::-1]]
    return (members, relations) if len(relations) > 1 else None


def _residue(text: str) -> tuple[str, int]:
    r"""Return n\equiv5 of n\equiv5\pmod 7 as n=5, and 7; 0 without a modulus."""
    modulus = _MODULUS.search(text)
    text = text[: modulus.start()] if modulus else text
    return re.sub(r"\\equiv ?", "=", text).strip(), int(modulus[1]) if modulus else 0


def _exact_and_rounded(text: str) -> tuple[str, str]:
    """Return the value before ≈ and the decimal behind it, "" where it isn't the value's.

    A name is not a value: x≈5 is the decimal x=5.
    """
    exact, mark, rounded = text.rpartition("≈")
    value = split(exact, "=")[-1]
    if not mark:
        return text, ""
    if not value or (is_name(value) and constant(value) is None):
        return "", f"{exact}={rounded}".lstrip("=")
    number, decimal = constant(value), _DECIMAL.fullmatch(rounded)
    if decimal is None or number is None or not is_real(number):
        return exact, ""
    # rounded (at most half a unit above, 0.501 for the rounding of floats) or cut off (less than a
    # unit below): both are usual for a decimal
    unit, excess = 10.0 ** -len(decimal[2] or ""), abs(float(number)) - abs(float(decimal[1]))
    if -0.501 * unit <= excess < unit:
        return exact, decimal[1]
    return ("", f"{exact}={rounded}") if value == "e" else (exact, "")  # e may be a variable


def _solved(name: str, left: str, right: str) -> str | None:
    """Return the value of `name` in 5=x, x-5=0 and 5-x=0, and None of any other equation."""
    if right == name:
        return left
    difference = left if right == "0" else right if left == "0" else ""
    if difference.endswith(f"-{name}"):
        return difference.removesuffix(f"-{name}")
    value = difference.removeprefix(name)
    return value.translate(_OPPOSITE) if value != difference and value[:1] in ("+", "-") else None


def _as_fraction(text: str) -> str:
    """Return a ratio in lowest terms as a fraction, and anything else as it is."""
    ratio = _RATIO.fullmatch(text)
    return (
        f"{ratio[1]}/{ratio[2]}" if ratio and math.gcd(int(ratio[1]), int(ratio[2])) == 1 else text
    )


def _with_distinct_letters(gold: str, answer: str) -> tuple[str, str]:
    """Return both with Greek letters for I, and for capitals beside the same small letter.

    Math-Verify takes I for the imaginary unit, and N for n.
    """
    used = letters(gold) | letters(answer)
    # Greek letters that occur on neither side, so that nothing is renamed onto another name
    spare = sorted(GREEK - used)
    names = {
        c: spare.pop() for c in sorted(used) if c.isupper() and (c == "I" or c.lower() in used)
    }
    if not names:
        return gold, answer
    rename = partial(_NAMES.sub, lambda m: f"{names[m[0]]} " if m[0] in names else m[0])
    return rename(gold), rename(answer)


def _exactly(gold: str, answer: str) -> bool:
    """Return True if two items say the same, without tolerance or algebra."""
    return Equality().equal(gold, answer) is True
