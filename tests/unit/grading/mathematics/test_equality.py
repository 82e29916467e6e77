"""Equality of answers: what each gold accepts and what it refuses."""

import json

import pytest

from sage_cli.grading.mathematics.equality import RULES, Equality
from sage_cli.grading.mathematics.notation import normalise
from sage_cli.grading.mathematics.numbers import read_number

CASES = [
    (
        "0",
        ["x=0", "f(0)=0", "-0", "0.0", "0", r"\frac{0}{5}", r"0 \times 10^{5}"],
        ["y-x=0", "y'+ry-rx(t)=0", "0=1"],
    ),
    (r"m \frac{d v}{d t}+b v=f", [r"m\frac{dv}{dt} + bv = f"], ["f", r"b v=f"]),
    ("FF_{16}", ["FF_{16}", "0FF_{16}"], ["ff_{8}", "255", "FE_{16}"]),
    ("2", ["2"], ["10_2", "2_8"]),
    (
        r"3\sqrt{13}",
        [r"\sqrt{117}", r"3\sqrt13", "sqrt(117)", "3*sqrt(13)", r"3\cdot 13^{1/2}"],
        ["52_8", r"3\sqrt{14}", "10.816653826391969"],
    ),
    (
        "27",
        [
            "$27$",
            r"\boxed{27}",
            r"$\boxed{27}$",
            r"\(27\)",
            r"\[27\]",
            "**27**",
            r"\text{27}",
            r"\mathbf{27}",
            "{27}",
            "(27)",
            r"\{27\}",
            r"x \in \{27\}",
            "54/2",
            r"\frac{54}{2}",
            "2.7e1",
            r"2.7\times10^1",
            r"0.27 \times 10^{2}",
            r"2700\%",
            "f(3) = 27",
            "m+n = 27",
            "AB = 27",
            r"\angle ABC = 27^\circ",
            r"x = 3 \cdot 9 = 27",
            r"3 \cdot 9 = 27",
            "27=27",
            "27 cm",
            r"27 \text{ square units}",
            "27 dollars",
            r"\$27",
            r"27\text{ m}",
            "27 m",
            r"27\mathrm{~m/s}",
            r"27\text{ apples}",
            "27 apples",
            r"27 \text{ cm}^{2}",
            "$27",
            "27$",
            r"27 \quad",
            r"\quad 27",
            "27 \\\\",
            "-(-27)",
            "２７",
        ],
        [
            r"27\%",
            "27%",
            "x + 1 = 27",
            "x^2+2=27",
            "2x=27",
            r"3\cdot 8=27",
            "x = 26 = 27",
            "x = 26, x = 27",
            "27 = x",
            "27 = 28",
            r"x \approx 27",
            r"\sqrt{729}",
            "3^3",
            r"3 \cdot 9",
            "x<27",
            "27 million",
            r"27\text{ million}",
            "27 thousand",
            r"27\text{i}",
            r"27\pi",
            "27e",
            r"27\text{ or }28",
            "27x",
            "27;28",
            "27 28",
            r"\boxed{27} \boxed{28}",
            r"\boxed{26}, \boxed{27}",
            "27 (or 28)",
            "not 27",
            "--27",
            "27-",
            "٢٧",
            "2⁷",
        ],
    ),
    (r"25\%", ["25", "0.25", "25 percent", r"\frac14"], []),
    ("9", [], [r"9\%"]),
    (r"15\mbox{ cm}^2", [r"15 \text{ square cm}"], [r"15 \text{ cm}^3"]),
    (r"5.4 \text{ cents}", ["5.4", "5.4 cents"], [r"5.4 \text{ dollars}"]),
    (r"864 \mbox{ inches}^2", ["864", r"864 \text{ in}^2", r"864\text{ square inches}"], []),
    ("1000", ["1,000", "1{,}000", r"1\,000", "1 000", "1000.00", "1,000.0"], ["1,00", "10,00"]),
    ("1234567", ["1,234,567", r"1\,234\,567", r"\$1,234,567"], []),
    (".0000672", [r"6.72\times 10^{-5}", "0.0000672", "6.72e-5"], ["0"]),
    (r"137 \frac{1}{2}", ["137.5", r"\frac{275}{2}", "137 1/2"], [r"\frac{137}{2}"]),
    (r"1\frac{4}{5}", ["1 4/5"], [r"1+\frac45"]),
    (r"\frac{3}{56}", ["3/56", r"\dfrac{3}{56}", r"\frac{6}{112}"], ["0.0535714"]),
    (
        r"-\frac{\pi}{6}",
        [r"-\pi/6", r"\frac{-\pi}{6}"],
        [r"\frac{\pi}{6}", "-0.5235987", "-0.523598775598"],
    ),
    (
        r"7\pi",
        [
            r"7 \pi",
            "7π",
            "7pi",
            "7*pi",
            r"\pi 7",
            r"7\pi \text{ cm}^2",
            r"A = 7\pi",
            r"14\pi/2 = 7\pi",
        ],
        ["21.99", "7", r"0 = 7\pi", r"8\pi, 7\pi", r"7\pi 8\pi", r"7\pi or 8\pi"],
    ),
    (r"\frac{\sqrt{21}}{5}", [r"\sqrt{21}/5", r"\sqrt{\frac{21}{25}}"], []),
    ("x=5", ["x = 5", "5", "x=2+3=5"], ["y=5", "x=6"]),
    (
        "1,-2",
        [
            "-2,1",
            "x=1, x=-2",
            r"x = 1 \text{ or } x = -2",
            "1 and -2",
            r"\{-2,1\}",
            r"x\in\{1,-2\}",
        ],
        ["(1,-2)", "[1,-2]", "1", "1,-2,3", "x=1,y=-2"],
    ),
    ("3, 5, 7", ["7,5,3", "3, 5, and 7"], ["3,5,8"]),
    (
        "(6,31,-1)",
        ["(6, 31, -1)", r"\left(6,31,-1\right)", "(a,b,c)=(6,31,-1)"],
        [r"\{6,31,-1\}", "[6,31,-1]", "(6,31)"],
    ),
    (
        "(3,4]",
        ["(3, 4]", r"3<x\leq 4", r"4 \ge x > 3", r"x \in (3,4]"],
        ["(3,4)", r"3 \le x \le 4"],
    ),
    (r"x \in [-2,7]", ["[-2,7]", r"-2\le x\le 7"], ["[-2,7)"]),
    (r"(-\infty, 0]", [r"x \le 0", r"x\leq0"], [r"(-\infty,0)", "x<0"]),
    (r"(5,\infty)", [r"(5,+\infty)", "x>5", "5<x"], ["(5, 6)"]),
    (r"(0,9) \cup (9,36)", [r"(0,9)\cup(9,36)", r"(9,36)\cup(0,9)", "0<x<9 or 9<x<36"], ["(0,36)"]),
    (
        r"\left[ \frac{\pi^2}{8}, \frac{5 \pi^2}{4} \right]",
        [r"[\pi^2/8, 5\pi^2/4]"],
        [r"(\pi^2/8, 5\pi^2/4)"],
    ),
    (
        r"\text{even}",
        ["even", "Even", r"\text{Even}", r"\textbf{even}", "even."],
        ["odd", "even or odd"],
    ),
    (r"\text{(C)}", ["C", "(C)", r"\textbf{(C)}"], ["c", "D"]),
    ("A", ["A", r"\text{A}"], ["B", "A, B", "A or B"]),
    ("52_8", ["52_{8}", r"52_{\text{8}}"], ["52", "42", "52_{10}", "53_8"]),
    (r"\cot x", [r"\cot(x)", r"\frac{\cos x}{\sin x}", r"\frac{1}{\tan x}"], [r"\tan x"]),
    ("6 - 5i", ["6-5i", "6 - 5 i", "-(5i-6)"], []),
    ("1+274i", ["274i+1"], ["275"]),
    ("(a+5)(b+2)", ["(b+2)(a+5)", "ab+2a+5b+10"], ["(a+2)(b+5)"]),
    ("5r^5", ["5r^{5}"], ["5R^5", "5s^5"]),
    ("x^3+3x-6", ["x^3 + 3x - 6", "p(x)=x^3+3x-6"], []),
    (r"\frac{11+9a}{20}", [r"\frac{9a+11}{20}", "0.45a+0.55"], []),
    ("3R^2", [], ["3r^2"]),
    ("4t", ["4t", "4 t", r"t\cdot 4"], ["4"]),
    ("y = 2x + 3", ["y=3+2x"], ["f(x)=2x+3", "2x+4"]),
    (
        "5x - 7y + 11z + 4 = 0",
        ["11z+5x-7y+4=0", "5x-7y+11z=-4", "10x-14y+22z+8=0"],
        ["5x-7y+11z=4"],
    ),
    ("y = -2x", ["y=-2x", "-2x", "y+2x=0"], ["x=-2y"]),
    (
        r"\begin{pmatrix} -1/3 \\ 2/3 \\ 5/3 \end{pmatrix}",
        [
            r"\begin{pmatrix} -\frac{1}{3} \\ \frac{2}{3} \\ \frac{5}{3} \end{pmatrix}",
            r"\begin{bmatrix} -1/3 \\ 2/3 \\ 5/3 \end{bmatrix}",
        ],
        [r"\begin{pmatrix} -1/3 & 2/3 & 5/3 \end{pmatrix}"],
    ),
    (
        r"\begin{pmatrix} -1 & 0 \\ 0 & -1 \end{pmatrix}",
        [r"\begin{pmatrix}-1&0\\0&-1\end{pmatrix}"],
        [r"\begin{pmatrix} -1 & 0 \\ 0 & 1 \end{pmatrix}"],
    ),
    (
        r"3 \pm 2 \sqrt{2}",
        [r"3+2\sqrt{2}, 3-2\sqrt{2}", r"3 \pm \sqrt{8}", r"x=3 \pm 2 \sqrt{2}"],
        [r"3+2\sqrt2"],
    ),
    ("3e8", [r"3\times 10^8", "300000000", r"3 \times 10^{8} \text{ m/s}"], ["3", "8.15"]),
    (
        "np.arcsin(10/13)",
        [r"\arcsin(10/13)", r"\arcsin\left(\frac{10}{13}\right)", r"\sin^{-1}(10/13)"],
        [r"\arccos(10/13)"],
    ),
    (
        r"\frac{1}{\sqrt{2}}c",
        [r"c/\sqrt{2}", r"\frac{c}{\sqrt{2}}", r"\frac{\sqrt{2}}{2}c"],
        [r"\frac{\sqrt{2}}{2}", "0.707c"],
    ),
    ("e^{t} / 3", [r"\frac{e^t}{3}", r"\frac13 \exp(t)"], []),
    (r"2 \pi / \omega", [r"\frac{2\pi}{\omega}"], [r"\frac{2\pi}{w}"]),
    (r"\frac{37}{4} m", ["9.25m"], [r"\frac{37}{4}"]),
    ("m", ["m"], ["M"]),
    (r"\alpha", [r"\alpha", "α"], ["a"]),
    (r"\sqrt{2} \cos (2 t-\pi / 4)", [r"\sqrt2\cos(2t-\frac{\pi}{4})", r"\cos 2t+\sin 2t"], []),
    (r"30^\circ", ["30", "30 degrees", "30°", r"\frac{\pi}{6}"], [r"\frac{\pi}{3}", r"150^\circ"]),
    (r"\infty", [r"\infty", "infinity"], ["5"]),
    (r"\text{4:30 p.m.}", [], ["4:30"]),
    ("2220", [], ["2220_{10}"]),
    ("x^5 - x^4 + x^3 - x^2 + x - 1", ["x^5-x^4+x^3-x^2+x-1", "(x-1)(x^4+x^2+1)"], []),
    (r"\$18.90", ["18.9", "18.90 dollars"], []),
    ("(2,4)", ["(2,4)", "2,4", "x=2,y=4", "(x,y)=(2,4)", "2<x<4"], ["(4,2)"]),
    ("0.1", [".1", "1/10", "1e-1"], []),
    ("326.5", ["326.50", "653/2"], []),
    ("x+y", ["y+x"], ["x-y"]),
    ("MR=SRMC", ["MR=SRMC", "SRMC = MR"], ["MR=SRAC"]),
    ("X_{d}=125-1.25 P", ["X_d = 125 - 1.25P", "125 - 1.25P"], []),
    ("128", [], ["2^7"]),
    ("x>2", ["x>4i/(2i)"], ["x<0i", "x>-2i^2+i"]),
]

EQUAL = [
    ("-1000", "-1,000"),
    (r"11,\! 111,\! 111,\! 100", "11111111100"),
    (r"10,\!080", "10080"),
    ("58,500", "58500"),
    ("-1./3", r"-\frac13"),
    ("-3./2", "-1.5"),
    ("+2", "2"),
    (r"\frac{448}{15625}", "0.028672"),
    (r"\text{Navin}", "Navin"),
    ("4210_{5}", "4210_5"),
    ("2k+2", "2(k+1)"),
    ("15x - 80", "15x-80"),
    (r"\frac{e^{-2 t}}{15}", r"\frac{1}{15}e^{-2t}"),
    (r"-\tau \ln \Delta", r"-\tau\ln(\Delta)"),
    (r"s^{2}+\omega^{2}", r"\omega^2+s^2"),
    (r"1+\sqrt{3} i", r"1+i\sqrt3"),
    (r"\ln 2 + i\pi / 3", r"\ln(2)+\frac{\pi i}{3}"),
    (r"30^{\circ}", r"30^\circ"),
    (r"\emptyset", r"\emptyset"),
    ("-2 + 7i", "7i-2"),
    (r"11 \sqrt{5} + 11", r"11(1+\sqrt5)"),
    (r"\frac{20000}{\pi}", r"20000/\pi"),
    (r"\frac43", "4/3"),
    (r"\frac9{19}", "9/19"),
    (r"\$36", "36"),
    ("3.21", "3.21"),
    ("E_{1},E_{2}", "E_1, E_2"),
    ("I(0)", "I(0)"),
]
"""Golds, each with an answer that it accepts."""


@pytest.mark.parametrize(
    ("gold", "right", "wrong"), [*CASES, *((gold, [answer], []) for gold, answer in EQUAL)]
)
def test_a_gold_accepts_its_equals_and_nothing_else(grader, gold, right, wrong):
    pairs = [(gold, f"<SOLUTION>{answer}</SOLUTION>") for answer in [*right, *wrong]]
    grades = grader.grade_many(pairs)
    expected = ["right"] * len(right) + ["wrong"] * len(wrong)
    found = [(grade.extracted, grade.status) for grade in grades]
    assert found == [
        (answer, status) for answer, status in zip([*right, *wrong], expected, strict=True)
    ]


def test_golds_that_are_no_numbers_are_told_apart_without_algebra(facts):
    golds = set(json.loads((facts / "golds/math500.json").read_text(encoding="utf-8"))["golds"])
    other = sorted(gold for gold in golds if read_number(normalise(gold)) is None)
    assert len(other) == 99
    pairs = [(gold, answer) for gold in other for answer in other if gold != answer]
    unrefused = {(gold, answer) for gold, answer in pairs if Equality()(gold, answer) is not False}
    spelled = {(r"2 \sqrt{5}", r"2\sqrt{5}"), ("1,-2", "-2,1")}
    assert unrefused == {pair for one, two in spelled for pair in ((one, two), (two, one))} | {
        ("(-2,1)", "-2,1")
    }


@pytest.mark.parametrize(
    ("gold", "answer"),
    [(r"\sum a_n", r"\sum b_n"), (r"\int 4t", r"\int 4"), (r"\sum R^2", r"\sum r^2")],
)
def test_other_letters_are_refused_where_values_are_unknown(gold, answer):
    assert Equality()(gold, answer) is False
    assert Equality()(gold, gold.replace(" ", "  ") + "+0") is None


DECIDED = [
    # the rule that decides, a gold, an answer, and what it says
    ("the same text", "x+1", "x+1", True),
    ("residues", r"5 \pmod 7", r"12 \pmod 7", True),
    ("a value and its decimal", r"\sqrt2", r"\sqrt2 \approx 1.414", True),
    ("an amount in another unit", r"2.5\text{ kg}", "2500 g", True),
    ("a function by cases", r"\begin{cases}x & x>0\\ -x & x\le 0\end{cases}", "|x|", True),
    ("a ratio to one", "10:1", "10", False),
    ("a number", "27", "28", False),
    ("words, choices, dates", r"\text{Tuesday}", "tuesday", True),
    ("a range or a score", "5-7", "-2", False),
    ("parts of the real line", "(2, 3)", "2<x<3", True),
    ("a chain of inequalities", "0<a<b", "b>a>0", True),
    ("solutions of several unknowns", "p=5, q=2", "q=2, p=5", True),
    ("structures and values", "2x+1", "1+2x", True),
]


@pytest.mark.parametrize(("rule", "gold", "answer", "same"), DECIDED)
def test_each_rule_decides_what_it_knows(rule, gold, answer, same):
    equality, texts = Equality(), (normalise(gold), normalise(answer))
    assert (equality.deciding_rule(*texts), equality.equal(*texts)) == (rule, same)


def test_every_rule_has_an_example():
    assert [rule.name for rule in RULES] == [rule for rule, *_ in DECIDED]
