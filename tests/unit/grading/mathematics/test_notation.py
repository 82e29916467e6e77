"""What may stand on the left of an equals sign."""

import pytest

from sage_cli.grading.mathematics.notation import is_name, is_quantity, is_symbol, normalise

SYMBOLS = ["x", "x_1", "a_{37}", "f(3)", "AB", "y'", r"\alpha", r"\angle ABC", r"\sin A"]
QUANTITIES = [
    "|AB|", "A:B", "S_{1}:S_{2}", r"\frac{a}{b}", "P(X=2)", "P(A|B)", "AB/CD",
    r"\overline{AB}", r"\text{area}", r"|\vec{v}|",
]  # fmt: skip
COMPUTED = ["m+n", "a-b"]
NEITHER = ["", "27", "x+1", "2x", "x<2", "x^2", r"\sqrt{4}"]
NEGATED = [r"x\not", r"\neg x", "not x", r"\text{not}x"]


@pytest.mark.parametrize(("texts", "symbol", "quantity", "name"), [
    (SYMBOLS, True, True, True), (QUANTITIES, False, True, None), (COMPUTED, False, False, True),
    (NEITHER, False, False, False), (NEGATED, False, False, False),
])  # fmt: skip
def test_each_form_is_told_apart(texts, symbol, quantity, name):
    for text in map(normalise, texts):
        assert (is_symbol(text), is_quantity(text)) == (symbol, quantity), text
        assert name is None or is_name(text) is name, text


@pytest.mark.timeout(10)
@pytest.mark.parametrize(("text", "quantity", "name"), [
    (r"\beta" * 300 + "1", False, False), (f"f({'1' * 900}!)", True, False),
    (f"P({'ab' * 900}|X)", True, True),
])  # fmt: skip
def test_no_form_takes_long_to_tell(text, quantity, name):
    assert (is_symbol(text), is_quantity(text), is_name(text)) == (False, quantity, name)
