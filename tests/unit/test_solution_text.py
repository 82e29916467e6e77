"""The last box, by hand and against a slow reading of the same rule; thoughts and stop texts."""

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from sage_cli.grading.grades import AnswerTags, extract
from sage_cli.problems.golds import in_last_box
from sage_cli.solution_text import is_open, last_boxed, last_boxes, stop_end


@pytest.mark.parametrize(
    ("text", "contents"),
    [
        (r"so \boxed{27}.", "27"),
        (r"\boxed{1} then \boxed{\frac{1}{2}}", r"\frac{1}{2}"),
        (r"\boxed {27}", "27"),
        (r"\boxed{1}\fbox{27}", "27"),
        (r"\boxed{\{1,2\}}", r"\{1,2\}"),
        (r"\boxed{\left\{1\right.}", r"\left\{1\right."),  # an escaped brace opens nothing
        (r"\boxed{1\}", None),  # nor does it close
        (r"\boxed{a \boxed{b}}", "b"),
        (r"\boxed{a \boxed{b}", "b"),
        (r"\boxed{27} \boxed{28", None),  # cut off
        (r"\boxed{27} \boxed{\frac{1}{2}", None),
        (r"\boxed{27}, as \boxed asks", "27"),
        (r"\boxed{27} \boxed 5", "5"),
        (r"\(\boxed 5\).", "5"),
        (r"\boxed 5.5", None),
        (r"\boxed5", "5"),
        (r"\boxed 5^2", None),
        (r"} {\boxed{27}", "27"),
        (r"\boxed{}", ""),
        (r"\boxed 27", None),
        ("27", None),
    ],
)
def test_the_box_that_begins_last(text, contents):
    assert last_boxed(text) == contents


def slow(text):
    """The last box, if its braces close."""
    starts = [i for i in range(len(text)) if text.startswith((r"\boxed{", r"\fbox{"), i)]
    for start in starts[-1:]:
        begin = text.index("{", start) + 1
        depth, i = 1, begin
        while i < len(text) and depth:
            if text[i] == "\\":
                i += 2
                continue
            depth += (text[i] == "{") - (text[i] == "}")
            i += 1
        if not depth:
            return text[begin : i - 1]
    return None


@given(st.lists(st.sampled_from([r"\boxed{", r"\fbox{", "{", "}", r"\{", r"\}", "a", " "])))
def test_it_is_the_slow_readings(units):
    text = "".join(units)
    assert last_boxed(text) == slow(text)


@given(st.lists(st.sampled_from([r"\boxed{", "{", "}", r"\{", "a", " "])))
def test_golds_and_completions_are_read_alike(units):
    text = "".join(units)
    assume(text.count(r"\boxed{") < 2)  # two boxes in one sentence are two answers
    answer = extract(text, AnswerTags(), "boxed")
    assert in_last_box(text) == ((answer or "").strip() or None)


@pytest.mark.parametrize(
    ("text", "opened"),
    [
        ("", False),
        ("42", False),
        ("<think>", True),
        ("<think>a</think>b", False),
        ("a</think>b", False),  # the prompt opened it
        ("<think>a</think>b<think>c", True),
        ("</think><think>", True),
    ],
)
def test_a_thought_is_open_until_it_is_closed(text, opened):
    assert is_open(text) is opened


@pytest.mark.parametrize(
    ("text", "end"),
    [
        ("ab|c|", 3),
        ("abc", None),
        ("<think>|</think>", None),
        ("<think>|", None),
        ("<think>|</think>a|b", 18),
        ("|<think>", 1),
        ("a</think>|", 10),
        ("<think>|</think><think>|</think>|", 33),
        ("", None),
    ],
)
def test_the_first_stop_text_outside_thoughts_is_heard(text, end):
    assert stop_end(text, "|") == end
    assert stop_end(text, None) is None


@pytest.mark.parametrize(
    ("text", "answer"),
    [
        # two boxes in one sentence are two answers, whatever joins them
        (r"\boxed{26} or \boxed{27}", "26 or 27"),
        (r"Either \boxed{26} or else $\boxed{27}$", "26 or 27"),
        (r"$\boxed{26}$ / $\boxed{27}$", "26 or 27"),
        (r"\boxed{26} \vee \boxed{27}", "26 or 27"),
        (r"\boxed{26} | \boxed{27}", "26 or 27"),
        (r"\boxed{26}; \boxed{27}", "26, 27"),
        (r"\boxed{26} \\ \boxed{27}", "26, 27"),
        (r"\boxed{26}\boxed{27}", "26, 27"),
        (r"\boxed{26} ... \boxed{27}", "26, 27"),
        (r"(i) \boxed{26} (ii) \boxed{27}", "26, 27"),
        (r"\boxed{26} if the first is counted, and \boxed{27} if it is counted twice", "26 and 27"),
        ("\\boxed{26}\nOr \\boxed{27}", "26 or 27"),
        (r"\boxed{1} papers and \boxed{\frac{1}{2}} a bin", r"1 and \frac{1}{2}"),
        (r"\boxed{1}, \boxed{2} and \boxed{3}", "1, 2 and 3"),
        (r"\boxed 5 or \boxed 6", "5 or 6"),
        # names stay where they differ
        (r"$x=\boxed{2}$ or $x=\boxed{3}$", "2 or 3"),
        (r"$x=\boxed{2}$ and $y=\boxed{3}$", "x=2, y=3"),
        # what is doubted or denied is no list
        (r"\boxed{26} or maybe \boxed{27}", "26 not 27"),
        (r"\boxed{27}, not \boxed{28}", "27 not 28"),
        (r"\boxed{1} no no \boxed{2}", "1 not 2"),
        # what follows from the first box, and what is computed from it
        (r"\boxed{26}, so \boxed{27}", "27"),
        (r"\boxed{26}, which gives \boxed{27}", "27"),
        (r"\boxed{26} \implies \boxed{27}", "27"),
        (r"\boxed{26} or so \boxed{27}", "26 or 27"),
        (r"$\boxed{26} + 1 = \boxed{27}$", "26 + 1 = 27"),
        # another sentence, line or box around
        (r"\boxed{26}. Or \boxed{27}", "27"),
        ("\\boxed{26}\n\nor \\boxed{27}", "27"),
        ("\\boxed{26}\nThen \\boxed{27}", "27"),
        (r"First $x=\boxed{2}$. So $y=\boxed{3}$", "3"),
        (r"\boxed{\boxed{27}}", "27"),
        (r"\boxed{26} and \boxed{27", None),
    ],
)
def test_the_boxes_of_the_last_sentence_are_the_answer(text, answer):
    assert last_boxes(text) == answer
