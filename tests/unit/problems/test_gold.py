"""Where published rows keep their golds."""

import pytest

from sage_cli.problems.gold import (
    after_hashes,
    as_text,
    before_unit,
    in_last_box,
    integer,
    is_number,
)


@pytest.mark.parametrize(
    ("value", "text"),
    [(27.0, "27"), (-1.0, "-1"), (0.26, "0.26"), (7, "7"), (" a ", "a"), (None, "")],
)
def test_columns_as_text(value, text):
    assert as_text(value) == text


@pytest.mark.parametrize(
    ("text", "gold"),
    [
        (r"so \boxed{1.6} cm", "1.6"),
        (r"\boxed{1} then \boxed{\frac{a}{b}}.", r"\frac{a}{b}"),
        (r"\boxed{1} then \boxed{2", "1"),  # the last one never closes
        (r"\boxed{\text{a \{ b\}}}", r"\text{a \{ b\}}"),
        (r"\boxed{ }", None),
        (r"\boxed{ 3 }", "3"),
        (r"so \boxed {3} or \fbox{4}", "4"),
        ("no box", None),
    ],
)
def test_what_stands_in_the_last_box(text, gold):
    assert in_last_box(text) == gold


@pytest.mark.parametrize(
    ("text", "gold"),
    [("3*4=12\n#### 12", "12"), ("#### 1\n#### 2,125", "2125"), ("12", None), ("####", None)],
)
def test_after_hashes(text, gold):
    assert after_hashes(text) == gold


@pytest.mark.parametrize(("text", "gold"), [("033", "33"), ("-007", "-7"), ("p", "p"), ("", None)])
def test_integers_lose_leading_zeros(text, gold):
    assert integer(text) == gold


@pytest.mark.parametrize(
    ("text", "gold"), [("9 (apples)", "9"), ("6:7", "6:7"), ("5 (left) (over)", "5 (left)")]
)
def test_units_in_parentheses_are_left_out(text, gold):
    assert before_unit(text) == gold


@pytest.mark.parametrize("text", ["12", "-0.5", "1e5", " 7 "])
def test_numbers(text):
    assert is_number(text)


@pytest.mark.parametrize("text", ["", "nan", "inf", r"\frac{1}{2}", "1_000", "3 m"])
def test_what_is_no_number(text):
    assert not is_number(text)
