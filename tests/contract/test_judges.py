"""Every built-in judge keeps the contract that users' own judges inherit; careless ones don't."""

from fractions import Fraction

import pytest

from sage_cli.grading.judge_contract import JudgeContract
from sage_cli.grading.judges import Judge, PlainMathVerify, Roles, StrictMath


class Mathematics(JudgeContract):
    golds = ("27", r"\frac{1}{3}", r"2\sqrt{113}", "(3,4]", "x^2+1", r"7\pi", r"\text{Evelyn}")
    wrong = (("27", "28"), (r"2\sqrt{113}", r"2\sqrt{115}"), ("x^2+1", "x^2-1"))
    right = (("27", "27.0"), (r"2\sqrt{113}", r"\sqrt{452}"), ("x^2+1", "1+x^2"))


class TestStrictMath(Mathematics):
    tolerance = 0.01
    near = (("1.6", "1.615"), ("2000", "1990"))  # one per cent is .016 and 20
    far = (("1.6", "1.62"), ("1e-8", "0"))

    def make(self) -> Judge:
        return StrictMath()


class TestPlainMathVerify(Mathematics):
    def make(self) -> Judge:
        return PlainMathVerify()


class TestRoles(JudgeContract):
    golds = ("Ann is a knight, and Bob is a knave.", "Ann is a knave, and Bob is a knave.")
    wrong = ((golds[0], "Ann is a knight"), (golds[0], "Ann is a knight, Bob is a knight"))
    right = ((golds[0], "Bob: knave, Ann: knight"), (golds[1], "Ann and Bob are knaves"))

    def make(self) -> Judge:
        return Roles()


class Ratio(Judge):
    """A judge as a user writes one: fractions as text, relative tolerance."""

    def quick(self, gold, answer, tolerance):
        try:
            wanted, found = Fraction(gold), Fraction(answer)
        except (ValueError, ZeroDivisionError):
            return "unparseable"
        near = abs(wanted - found) <= Fraction(tolerance or 0) * abs(wanted)
        return "right" if near else "wrong"

    def full(self, gold, answer, tolerance, deadline):
        return self.quick(gold, answer, tolerance)


class RatioContract(JudgeContract):
    golds = ("1/3", "2")
    wrong = (("2", "3"),)
    tolerance = 0.1
    near = (("2", "2.1"),)
    far = (("2", "2.3"),)
    judge = Ratio

    def make(self) -> Judge:
        return self.judge()


class TestRatio(RatioContract):
    pass


class Generous(Ratio):
    def quick(self, gold, answer, tolerance):
        return "right"


class Stern(Ratio):
    def quick(self, gold, answer, tolerance):
        return "wrong"


class Fragile(Ratio):
    def quick(self, gold, answer, tolerance):
        return "right" if Fraction(gold) == Fraction(answer) else "wrong"


class Inventive(Ratio):
    def quick(self, gold, answer, tolerance):
        return "correct" if gold == answer else "wrong"


class TwoMinded(Ratio):
    def full(self, gold, answer, tolerance, deadline):
        return "wrong"


class Moody(Ratio):
    asked = 0

    def quick(self, gold, answer, tolerance):
        Moody.asked += 1
        return super().quick(gold, answer, tolerance) if Moody.asked % 3 else None


class Lax(Ratio):
    def quick(self, gold, answer, tolerance):
        return super().quick(gold, answer, 0.1)


class Exact(Ratio):
    def quick(self, gold, answer, tolerance):
        return super().quick(gold, answer, None)


class PaysSilence(Ratio):
    def quick(self, gold, answer, tolerance):
        return super().quick(gold, answer, tolerance) if answer.strip() else "right"


@pytest.mark.parametrize(
    ("judge", "test"),
    [
        (Generous, "test_right_and_wrong_answers_are_told_apart"),
        (Stern, "test_a_gold_grades_itself_right"),
        (Fragile, "test_quick_never_raises_and_never_takes_long"),
        (Inventive, "test_quick_never_raises_and_never_takes_long"),
        (TwoMinded, "test_quick_and_full_agree"),
        (Moody, "test_the_same_pair_gets_the_same_status"),
        (Lax, "test_a_tolerance_is_respected"),
        (Exact, "test_a_tolerance_is_respected"),
        (PaysSilence, "test_an_empty_answer_is_unparseable_or_wrong"),
    ],
)
def test_a_judge_that_breaks_the_contract_fails_it(judge, test):
    contract = type("Contract", (RatioContract,), {"judge": judge})()
    with pytest.raises((AssertionError, ValueError)):
        getattr(contract, test)()
