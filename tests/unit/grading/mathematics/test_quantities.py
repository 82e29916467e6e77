"""Amounts in another unit, and the questions that ask for one."""

from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sage_cli.grading.mathematics.equality import Equality
from sage_cli.grading.mathematics.notation import normalise
from sage_cli.grading.mathematics.quantities import amounts_in, read_quantity

CONVERTED = [
    # the gold, equal amounts, and amounts or numbers that are others
    (
        r"2.5\text{ kg}",
        ["2500 g", r"2500\text{ grams}", r"2.5\times10^3\text{ g}", "2 kg 500 g"],
        ["2500", "250 g", "2500 m", "2500 kg", "2.5 g", "2500 or 2600 g", "about 2500 g"],
    ),
    (r"1\text{ km}", ["1000 m", r"1000\text{ meters}", "1{,}000 m"], ["1000", "100 m", "1000 m^2"]),
    (
        r"\frac{5}{6}\text{ hour}",
        [r"50\text{ minutes}", "50 min", "3000 seconds"],
        ["50", "0.83 hours", "50 seconds", "5 minutes", "1 hour"],
    ),
    # 3 * 12 + 6 = 42
    ("3 ft 6 in", ["42 in", "3.5 feet", r"42\text{ inches}"], ["36 in", "3 ft", "6 in", "42"]),
    ("42 in", ["3 ft 6 in", "3 feet and 6 inches"], ["3 ft 7 in", "4 ft 6 in", "3.5"]),
    # 2 * 60 + 30 = 150
    (
        "2 hours 30 minutes",
        ["150 minutes", "2.5 hours", "2.5 h", "9000 s"],
        ["150", "2.3 hours", "30 minutes", "2 hours", "150 hours"],
    ),
    (r"60\text{ N}", ["0.06 kN", r"60\text{ kg m/s}^2"], ["0.06 N", "6 kN", "60 J"]),
    (
        r"\$0.75",
        ["75 cents", r"75\text{ cents}", "75¢"],
        ["75", r"\$75", "0.75 cents", "7.5 cents"],
    ),
    (r"75\text{ cents}", [r"\$0.75", "0.75 dollars"], [r"\$75", r"\$7.5"]),
    # 45,000 m in 3,600 s
    (r"45\text{ km/h}", ["12.5 m/s", r"12.5\,\frac{\text{m}}{\text{s}}"], ["12.5", "45 m/s"]),
    (r"12\text{ cm}^2", [r"1200\text{ mm}^2", "0.0012 m^2"], ["120 mm^2", "1200 mm", "0.12 m"]),
    (r"1.5\text{ L}", ["1500 mL", r"1500\text{ cm}^3"], ["150 mL", "1500 cm^2", "1500"]),
    (r"2\text{ pounds}", ["32 ounces", "32 oz"], ["16 oz", "32 cents", "2 ounces"]),
    (r"18\text{ months}", ["1.5 years", "1 year 6 months"], ["1 year", "78 weeks", "18 years"]),
    (r"x = 2.5\text{ kg}", ["x = 2500 g", "2500 g"], ["y = 2500 g", "x = 2500"]),
    (r"7\pi\text{ cm}^2", [r"700\pi\text{ mm}^2"], [r"700\pi", r"70\pi\text{ mm}^2"]),
    (
        r"135^\circ",
        [r"\frac{3\pi}{4}", r"3\pi/4\text{ radians}"],
        [
            r"\frac{3\pi}{4}^\circ",
            r"\frac{\pi}{4}",
            "2.356",
            r"-\frac{3\pi}{4}",
            r"\frac{11\pi}{4}",
        ],
    ),
    (r"\frac{\pi}{6}", [r"30^\circ"], [r"60^\circ", "30"]),
]


@pytest.mark.parametrize(("gold", "right", "wrong"), CONVERTED)
def test_an_amount_may_be_written_in_another_unit(gold, right, wrong):
    equal = Equality()
    assert {answer for answer in [*right, *wrong] if equal(gold, answer)} == set(right)


@pytest.mark.parametrize(
    ("gold", "answer"),
    [
        ("60", "1 hour"),
        ("2500", "2.5 kg"),
        ("75", r"\$0.75"),
        ("135", r"\frac{3\pi}{4}"),
        (r"\pi", "180"),
        ("180", r"\pi"),
        ("100", "1 m"),
        ("5", "500 cm"),
        ("0.25", "25 cents"),
    ],
)
def test_a_bare_number_never_gets_another_unit(gold, answer):
    assert not Equality()(gold, answer)


@pytest.mark.parametrize(
    ("question", "gold", "right", "wrong"),
    [
        (
            "Convert 2.5 kg to grams.",
            "2500 grams",
            ["2500 grams", "2500"],
            ["2.5 kg", r"2.5\text{ kilograms}", r"\frac{5}{2}\text{ kg}", "2.50 kg", "0.0025 Mg"],
        ),
        (
            r"Express $2.5\text{ kg}$ in grams.",
            "2500 grams",
            ["2500"],
            ["2.5 kg", "2500 g = 2.5 kg"],
        ),
        ("How many minutes are in an hour?", "60 minutes", ["60", "60 min"], ["1 hour", "an hour"]),
        ("How many minutes are five hours?", "300 minutes", ["300"], ["5 hours", "five hours"]),
        ("He slept two and a half hours. How many minutes?", "150 minutes", ["150"], ["2.5 hours"]),
        ("How many minutes is half an hour?", "30 minutes", ["30"], ["1/2 hour", "half an hour"]),
        ("How many inches are 3 feet 6 inches?", "42 inches", ["42"], ["3 ft 6 in", "3.5 ft"]),
        ("How many cents are $\\$0.75$?", "75 cents", ["75"], [r"\$0.75"]),
        (r"Write $135^\circ$ in radians.", r"\frac{3\pi}{4}", [r"3\pi/4"], [r"135^\circ"]),
        (r"Write $\frac{3\pi}{4}$ in degrees.", r"135^\circ", ["135"], [r"\frac{3\pi}{4}"]),
        # in 2 hours 30 minutes the asked unit occurs
        ("How many hours are 150 minutes?", "2.5 hours", ["2 hours 30 minutes"], ["150 minutes"]),
        # other amounts don't count, nor does the gold's in its own unit
        ("A 2 kg bag and a 500 g bag weigh?", "2.5 kg", ["2500 g"], ["2 kg"]),
        ("A rope of 1 km is cut. How long was it?", "1 km", ["1000 m"], []),
    ],
)
def test_an_amount_that_the_question_says_is_no_conversion(question, gold, right, wrong):
    equal = Equality(question=question)
    assert {answer for answer in [*right, *wrong] if equal(gold, answer)} == set(right)


@pytest.mark.parametrize(
    ("text", "amount", "unit"),
    [
        ("2 hours 30 minutes", 9000, "hour, minute"),
        (r"\$4.50", Fraction(9, 2), "dollar"),
        ("3 lb 4 oz", Fraction("0.45359237") * Fraction(13, 4), "pound, ounce"),
        (r"\frac{45\text{ km}}{\text{h}}", Fraction(25, 2), "hour^-1 kilometer"),
    ],
)
def test_the_amount_in_base_units(text, amount, unit):
    quantity = read_quantity(normalise(text), spoken=True)
    assert (quantity.unit, abs(quantity.amount - amount) < 1e-9) == (unit, True)


@pytest.mark.parametrize(
    "text",
    [
        "5",
        "25%",
        "5 apples",
        "30 minutes and 2 hours",
        "1 hour and 75 minutes",
        "2 m, 30 cm",
        "1.5 hours 30 minutes",
        "5-7 years",
        "x",
        "3 feet -6 inches",
        "2 kg 3 m",
    ],
)
def test_what_is_no_single_amount(text):
    assert read_quantity(normalise(text), spoken=True) is None


SIZES = {
    # grams, centimetres, seconds, cents in one unit
    "mass": {"mg": Fraction(1, 1000), "g": 1, "kg": 1000},
    "length": {"mm": Fraction(1, 10), "cm": 1, "m": 100, "km": 100_000},
    "time": {"seconds": 1, "minutes": 60, "hours": 3600, "days": 86_400},
    "money": {"cents": 1, "dollars": 100},
}


@given(st.sampled_from(sorted(SIZES)), st.integers(1, 500), st.data())
def test_every_unit_of_a_dimension_converts_by_its_size_and_by_no_other(dimension, count, data):
    sizes = SIZES[dimension]
    unit, other = (data.draw(st.sampled_from(sorted(sizes))) for _ in range(2))
    amount = Fraction(count * sizes[unit]) / sizes[other]
    gold, equal = rf"{count}\text{{ {unit}}}", Equality()
    assert equal(gold, rf"{amount}\text{{ {other}}}")
    assert not equal(gold, rf"{amount * 10}\text{{ {other}}}")
    assert not equal(gold, rf"{amount + Fraction(1, 1000)}\text{{ {other}}}")
    strange = next(units for name, units in sorted(SIZES.items()) if name != dimension)
    assert not equal(gold, rf"{amount}\text{{ {next(iter(strange))}}}")


def test_the_amounts_of_a_long_question_are_bounded():
    assert len(amounts_in("a 2 kg bag, " * 20_000)) <= 300 * 8
