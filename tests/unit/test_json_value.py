"""A JSON text: whole, or one kind of error."""

from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sage_cli.json_value import json_value


def test_texts_and_bytes_of_utf_8():
    assert json_value('{"τ": 0.5}') == json_value('{"τ": 0.5}'.encode()) == {"τ": 0.5}


@pytest.mark.parametrize("torn", [b"", b'{"a": 1', b"\xff", b"[" * 100_000, b'{"a":' * 100_000])
def test_every_fault_is_a_value_error(torn):
    with pytest.raises(ValueError, match=r".+"):
        json_value(torn)


@given(st.binary(max_size=60))
def test_any_bytes_are_a_value_or_a_value_error(content):
    with suppress(ValueError):
        json_value(content)
