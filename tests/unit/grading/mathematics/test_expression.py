"""Values of expressions, against values written in Python."""

import cmath
import math
from fractions import Fraction

import pytest

from sage_cli.grading.mathematics.expression import differ, read_expression, value_at
from sage_cli.grading.mathematics.notation import normalise

X, Y = 1.25 + 0j, 0.5 + 0j


def value(text):
    read = read_expression(normalise(text))
    return value_at(read[0], {"x": X, "y": Y, r"\theta": Y, "x_1": Y})


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("1+2*3", Fraction(7)),
        ("2-3-4", Fraction(-5)),
        (r"1\frac{4}{5}+1", Fraction(14, 5)),
        (r"\frac12 \cdot \frac{2}{3}", Fraction(1, 3)),
        ("2^{10}", Fraction(1024)),
        ("2^{-1}", Fraction(1, 2)),
        ("-2^2", Fraction(-4)),
        (r"\sqrt{16}", Fraction(4)),
        (r"\sqrt[3]{-8}", -2),
        ("5!", Fraction(120)),
        (r"\binom{5}{2}", Fraction(10)),
        ("|2-5|", Fraction(3)),
    ],
)
def test_rational_values_are_exact(text, expected):
    assert value(text) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (r"2\sqrt{3}", 2 * math.sqrt(3)),
        (r"7\pi", 7 * math.pi),
        (r"2x(x+1)", 2 * X * (X + 1)),
        (r"\frac{x}{y}", X / Y),
        (r"\sin^2 x + \cos 2y", cmath.sin(X) ** 2 + cmath.cos(2 * Y)),
        (r"\sin x \cos x", cmath.sin(X) * cmath.cos(X)),
        (r"\sin(x) y", cmath.sin(X) * Y),
        (r"\log_2 8", 3),
        (r"e^{i\pi}", -1),
        (r"x_1 \theta", Y * Y),
        (r"x^{12}", X**12),
        (r"6-5i", 6 - 5j),
        (r"\exp{-x}", cmath.exp(-X)),
    ],
)
def test_values_of_symbols_and_functions(text, expected):
    assert value(text) == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize(
    "text", [r"\sum_{n=1}^3 n", "x=1", "1,2", "(x", r"\foo", "٢", "30^\\circ", "²"]
)
def test_what_is_unknown_is_not_read(text):
    assert read_expression(normalise(text)) is None


@pytest.mark.parametrize("text", ["9^{9^{9^9}}", "1/0", "1000000!", r"\ln 0", "10^{400} e"])
def test_no_value_is_better_than_a_runaway(text):
    assert value(text) is None


@pytest.mark.parametrize(
    ("one", "other", "expected"),
    [
        ("(x+1)^2", "x^2+2x+1", False),
        ("(x+1)^2", "x^2+2x+2", True),
        (r"\sqrt{452}", r"2\sqrt{113}", False),
        (r"\frac13", "0.333333", True),
        (r"\sqrt2", "1.41421356", True),
        (r"\cos 2x", r"1-2\sin^2 x", False),
        (r"\sum x", "x", None),
    ],
)
def test_expressions_that_differ_everywhere_are_refused(one, other, expected):
    assert differ(normalise(one), normalise(other)) is expected
