"""Where a thought is open, and which stop text is heard."""

import pytest

from sage_cli.solution_text import is_open, stop_end


@pytest.mark.parametrize(("text", "opened"), [
    ("", False), ("42", False), ("<think>", True), ("<think>a</think>b", False),
    ("a</think>b", False),  # the prompt opened it
    ("<think>a</think>b<think>c", True), ("</think><think>", True),
])  # fmt: skip
def test_a_thought_is_open_until_it_is_closed(text, opened):
    assert is_open(text) is opened


@pytest.mark.parametrize(("text", "end"), [
    ("ab|c|", 3), ("abc", None), ("<think>|</think>", None), ("<think>|", None),
    ("<think>|</think>a|b", 18), ("|<think>", 1), ("a</think>|", 10),
    ("<think>|</think><think>|</think>|", 33), ("", None),
])  # fmt: skip
def test_the_first_stop_text_outside_thoughts_is_heard(text, end):
    assert stop_end(text, "|") == end
    assert stop_end(text, None) is None
