"""Numbers, read exactly."""

from fractions import Fraction

import pytest

from sage_cli.grading.mathematics.notation import normalise
from sage_cli.grading.mathematics.numbers import read_number


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("27", 27),
        ("+27", 27),
        ("−27", -27),
        ("027", 27),
        ("27.", 27),
        (".5", Fraction(1, 2)),
        ("0.10", Fraction(1, 10)),
        ("1,234,567.5", Fraction(2469135, 2)),
        (r"10\,000", 10_000),
        (r"11,\! 111,\! 111,\! 100", 11_111_111_100),
        ("10{,}000", 10_000),
        (r"\frac12", Fraction(1, 2)),
        (r"\dfrac{17}{50}", Fraction(17, 50)),
        (r"-\frac{35}{9}", Fraction(-35, 9)),
        (r"\frac{-35}{9}", Fraction(-35, 9)),
        ("-1./3", Fraction(-1, 3)),
        (r"1\frac{4}{5}", Fraction(9, 5)),
        ("1 4/5", Fraction(9, 5)),
        (r"-1\frac{4}{5}", Fraction(-9, 5)),  # -(1 + 4/5)
        ("3e8", 300_000_000),
        (r"2.5 \times 10^{-3}", Fraction(1, 400)),
        ("10^{-8}", Fraction(1, 10**8)),
        (r"0.\overline{3}", Fraction(1, 3)),
        (r"0.1\overline{6}", Fraction(1, 6)),  # 1/10 + 6/90
        (r"0.1\dot{6}", Fraction(1, 6)),
        (r"0.\dot{1}4285\dot{7}", Fraction(1, 7)),
        ("0.1666…", Fraction(1, 6)),
        (r"2.3636\ldots", Fraction(26, 11)),  # 2 + 36/99
        ("22°30'", Fraction(45, 2)),
        (r"10^\circ 30' 36''", Fraction(1051, 100)),  # 10 + 30/60 + 36/3600 = 10 + .5 + .01
        (r"4.2\times 10", 42),
        (r"25\%", Fraction(1, 4)),
        (r"27^\circ", 27),
        (r"\$32,\!348", 32_348),
        (r"27\text{ cm}^2", 27),
        ("27 miles", 27),
        ("(27)", 27),
        ("27 million", 27_000_000),
        ("2.5 thousand", 2500),
        ("twenty-seven", 27),
        ("½", Fraction(1, 2)),
        ("２７", 27),
    ],
)
def test_a_number_has_its_exact_value(text, value):
    assert read_number(normalise(text)).value == value


@pytest.mark.parametrize(
    "text",
    [
        "",
        "-",
        "27-",
        "--27",
        "2 7",
        "3,25",
        "1,00",
        "27t",
        "27i",
        "27 m",
        "27!",
        r"27\text{ or }28",
        "1/0",
        r"\frac{1}{0}",
        r"1\times 10^{999999999}",
        "1e999999999",
        r"27\pi",
        "3^3",
        "x",
        "٢٧",
        "27_8",
        r"\sqrt{4}",
        "1.2.3",
        "0x1b",
        "1_000",
        "nan",
        "inf",
        r"1\frac{9}{5}",
        r"0\frac{1}{2}",
        r"1\frac{0}{5}",
        "1 9/5",
    ],
)
def test_anything_else_is_no_number(text):
    assert read_number(normalise(text)) is None


def test_long_decimals_that_go_on_are_left_alone():
    # the search for a period grows with the cube of the digits, so it looks at 40 at most
    assert read_number("0." + "12" * 20 + "...") is not None
    assert read_number("0." + "12" * 500 + "3...") is None
