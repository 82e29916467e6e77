"""Every judge of answers and every generator of problems keeps its contract."""

from generator_contract import GeneratorContract
from judge_contract import JudgeContract

from sage_cli.grading.judges import PlainMathVerify, Roles, StrictMath
from sage_cli.problems.arithmetic import Arithmetic
from sage_cli.problems.knights_knaves import KnightsKnaves
from sage_cli.settings.inputs import ArithmeticSection, KnightsKnavesSection


class Mathematics(JudgeContract):
    golds = ("27", r"\frac{1}{3}", r"2\sqrt{113}", "(3,4]", "x^2+1", r"7\pi", r"\text{Evelyn}")
    wrong = (("27", "28"), (r"2\sqrt{113}", r"2\sqrt{115}"), ("x^2+1", "x^2-1"))
    right = (("27", "27.0"), (r"2\sqrt{113}", r"\sqrt{452}"), ("x^2+1", "1+x^2"))


class TestStrictMath(Mathematics):
    tolerance = 0.01
    near = (("1.6", "1.615"), ("2000", "1990"))  # one per cent is .016 and 20
    far = (("1.6", "1.62"), ("1e-8", "0"))

    def make(self):
        return StrictMath()


class TestPlainMathVerify(Mathematics):
    def make(self):
        return PlainMathVerify()


class TestRoles(JudgeContract):
    golds = ("Ann is a knight, and Bob is a knave.", "Ann is a knave, and Bob is a knave.")
    wrong = ((golds[0], "Ann is a knight"), (golds[0], "Ann is a knight, Bob is a knight"))
    right = ((golds[0], "Bob: knave, Ann: knight"), (golds[1], "Ann and Bob are knaves"))

    def make(self):
        return Roles()


class TestArithmetic(GeneratorContract):
    def make(self):
        return Arithmetic(ArithmeticSection(high=40))

    def changed(self):
        return Arithmetic(ArithmeticSection(high=40, seed=1))


class TestKnightsKnaves(GeneratorContract):
    def make(self):
        return KnightsKnaves(KnightsKnavesSection(people=(2, 3), per_size=5))

    def changed(self):
        return KnightsKnaves(KnightsKnavesSection(people=(2, 3), per_size=5, seed=1))
