"""Units by their names and by their size."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sage_cli.grading.mathematics.notation import normalise
from sage_cli.grading.mathematics.numbers import read_number
from sage_cli.grading.mathematics.units import _UNITS, read_unit, same_unit


def test_units_are_named_alike():
    units = {
        read_number(normalise(text)).unit
        for text in (
            r"15\mbox{ cm}^2",
            r"15 \text{ square cm}",
            "15 sq cm",
            r"15\,\mathrm{cm}^{2}",
            "15 square centimeters",
        )
    }
    assert units == {"centimeter^2"}


@pytest.mark.parametrize(
    ("text", "unit"),
    [
        ("", ""),
        ("cm", "centimeter"),
        (r"\text{ m}^2", "meter^2"),
        ("square feet", "foot^2"),
        (r"\text{ m/s}^2", "meter second^-2"),
        (r"\text{ m s}^{-1}", "meter second^-1"),
        (r"\text{ kg m/s}^2", "kilogram meter second^-2"),
        ("miles per hour", "hour^-1 mile"),
        (r"\text{ cm squared}", "centimeter^2"),
        (r"°\text{C}", "celsius"),
        ("degrees Fahrenheit", "fahrenheit"),
        ("m", None),  # a bare letter is a variable
        ("squared", None),
        ("million", None),
        (r"\text{ or }", None),
    ],
)
def test_a_unit_is_a_product_of_names(text, unit):
    assert read_unit(text) == unit


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        ("joule", "kilogram meter^2 second^-2", True),
        ("newton", "joule", False),
        ("mph", "hour^-1 mile", True),  # 1609.344 m / 3600 s = 0.44704 m/s
        ("kmh", "mph", False),
        ("milliliter", "centimeter^3", True),
        ("liter", "meter^3", False),
        ("gram centimeter^-3", "kilogram meter^-3", False),  # 1,000 of the second
        ("apples", "meter", True),  # what isn't known contradicts nothing
        ("", "meter", True),
    ],
)
def test_units_are_compared_by_size_and_dimension(one, other, same):
    assert same_unit(one, other) is same
    assert same_unit(other, one) is same


@given(st.sampled_from(sorted(_UNITS)), st.sampled_from(sorted(_UNITS)), st.integers(1, 3))
def test_a_power_of_a_unit_differs_from_the_unit(name, other, power):
    assert same_unit(name, name)
    if power > 1:
        assert not same_unit(f"{name}^{power}", name)
    product = " ".join(sorted((name, other)))
    assert same_unit(product, product)
    assert not same_unit(f"{product} meter", product)
