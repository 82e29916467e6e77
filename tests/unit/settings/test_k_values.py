"""The grammar of k, and its largest value."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sage_cli.errors import ConfigurationError
from sage_cli.settings.k_values import capped_ks, parse_ks


@pytest.mark.parametrize(("text", "ks"), [
    ("1..4", (1, 2, 3, 4)),
    ("64,1, 8", (1, 8, 64)),
    ("1..256:pow2", (1, 2, 4, 8, 16, 32, 64, 128, 256)),
    ("3..100:pow2", (4, 8, 16, 32, 64)),
    ("1..3,2,8..16:pow2", (1, 2, 3, 8, 16)),
    ("7", (7,)),
    ("5..5", (5,)),
])  # fmt: skip
def test_grammar(text, ks):
    assert parse_ks(text) == ks


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("1..", "'1..' is not"),
        ("1,two", "'two' is not"),
        ("", "'' is not"),
        ("1,,2", "'' is not"),
        ("1-8", "'1-8' is not"),
        ("0..8", "'0..8': k starts at 1"),
        ("8..1", "'8..1': the range ends before"),
        ("1..8:log", "'1..8:log': the only step is pow2, not 'log'"),
        ("5..7:pow2", "'5..7:pow2': this range contains no power of two"),
        ("1..99999999999", "'1..99999999999': k is at most"),
    ],
)
def test_errors_name_the_token(text, said):
    with pytest.raises(ConfigurationError, match=said.replace(".", r"\.")):
        parse_ks(text)


def test_ks_end_at_n():
    assert parse_ks("1..64", n=64)[-1] == 64
    with pytest.raises(ConfigurationError, match="pass@256 is undefined with 64 samples") as caught:
        parse_ks("1,1..256:pow2", n=64)
    assert caught.value.next_step == "use k up to 64, or sample more: --n 256"


@pytest.mark.parametrize(
    ("text", "n", "fits"),
    [
        ("1..256", 64, "1..64"),
        ("1,256", 64, "1,64"),
        ("1..256:pow2", 100, "1..100:pow2"),
        ("1,8..512", 64, "1,8..64"),
        ("100..256:pow2", 120, "120"),  # no power of two from 100 to 120
        ("256..512", 64, "64"),
        ("1..256", 256, "1..256"),
        ("1..two, 512", 64, "1..two,64"),  # refused by parse_ks as it was typed
    ],
)
def test_ks_that_nobody_asked_for_end_at_n(text, n, fits):
    assert capped_ks(text, n) == fits


@given(st.integers(1, 300), st.integers(1, 300), st.integers(1, 300), st.booleans())
def test_capped_ks_can_always_be_computed(first, more, n, powers):
    text = f"{first}..{first + more}" + (":pow2" if powers and more >= first else "")
    assert parse_ks(capped_ks(text, n), n)[-1] <= n
