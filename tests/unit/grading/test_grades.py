"""Where the answer stands."""

import time

import pytest

from sage_cli.grading.grades import AnswerTags, extract

TAGS = AnswerTags()


@pytest.mark.parametrize(
    ("completion", "answer"),
    [
        ("<SOLUTION>27</SOLUTION>", "27"),
        ("as <SOLUTION>1</SOLUTION> asks: <SOLUTION>27</SOLUTION> done", "27"),
        ("<SOLUTION>27</SOLUTION> <SOLUTION>28", "27"),
        ("<SOLUTION><SOLUTION>27</SOLUTION>", "27"),
        ("<SOLUTION>27</SOLUTION> and </SOLUTION>", "27"),
        ("<SOLUTION></SOLUTION>", ""),
        ("27</SOLUTION>", None),
        ("<SOLUTION>27", None),
        ("</SOLUTION>27<SOLUTION>", None),
        ("", None),
    ],
)
def test_the_last_closed_pair_of_tags(completion, answer):
    assert extract(completion, TAGS) == answer


@pytest.mark.parametrize(
    ("completion", "answer"),
    [
        (r"\boxed{1} then \boxed{\frac{1}{2}}", r"\frac{1}{2}"),
        (r"\boxed{27} \boxed{28", None),
    ],
)
def test_the_last_closed_box(completion, answer):
    assert extract(completion, TAGS, "boxed") == answer


@pytest.mark.parametrize(
    ("completion", "answer"),
    [
        (r"\boxed{(2,2)} \text{ and } \boxed{(6,2)}", "(2,2) and (6,2)"),
        (r"$x = \boxed{2}$, or $\boxed{3}$.", "2 or 3"),
        (r"first $\boxed{1}$, $\boxed{2}$, and \fbox{3}", "1, 2 and 3"),
        (r"\[\boxed{1}\] and \[\boxed{2}\]", "1 and 2"),
        (r"\boxed{1},\quad\text{and}\quad\boxed{2}", "1 and 2"),
        (r"\boxed{28} or \boxed{27}", "28 or 27"),  # a hedge is no answer
        (r"\boxed{1} so \boxed{2}", "2"),
        (r"\boxed{1} \boxed{2}", "1, 2"),
        (r"\boxed{1} and x = \boxed{2}", "1 and 2"),
        (r"\boxed{1} and \boxed{2} hence \boxed{3}", "3"),
        (r"\boxed{1 and \boxed{2}", "2"),
        (r"{1} and \boxed{2}", "2"),
        (r"\boxed{x{1} and \boxed{2}}", "2"),
        (r"\boxed{1\} and \boxed{2}", "2"),
        (r"\boxed{1} band \boxed{2}", "1, 2"),
        (r"\boxed{1}" + " " * 100 + r"and \boxed{2}", "1 and 2"),
        (r"\boxed{1}" + " " * 1100 + r"and \boxed{2}", "2"),
    ],
)
def test_boxes_that_are_joined_are_one_answer(completion, answer):
    assert extract(completion, TAGS, "boxed") == answer


@pytest.mark.parametrize(
    ("completion", "answer"),
    [
        (r"<SOLUTION>27</SOLUTION>", "27"),
        (r"\boxed{28} <SOLUTION>27</SOLUTION>", "27"),
        (r"<SOLUTION>27</SOLUTION> \boxed{28}", "27"),
        (r"<SOLUTION>\boxed{27}</SOLUTION>", r"\boxed{27}"),
        (r"\boxed{<SOLUTION>27</SOLUTION>}", "27"),
        (r"between <SOLUTION> and </SOLUTION>: <SOLUTION>27</SOLUTION>", "27"),
        (r"as <SOLUTION></SOLUTION> asks: \boxed{27}", "27"),
        ("<SOLUTION> \n </SOLUTION> \\boxed{27}", "27"),
        (r"so \boxed{27}, <SOLUTION>28", "27"),
        (r"<SOLUTION>\boxed{27}", "27"),
        (r"so \boxed{27}.", "27"),
        (r"<SOLUTION></SOLUTION>", ""),
        (r"<SOLUTION></SOLUTION> \boxed{27", ""),
        (r"\boxed{27", None),
        ("27", None),
        ("", None),
    ],
)
def test_the_tags_and_where_there_are_none_the_box(completion, answer):
    assert extract(completion, TAGS, "tags-then-boxed") == answer


@pytest.mark.parametrize("completion", ["", "27", r"<SOLUTION>27</SOLUTION> \boxed{28} is it"])
def test_the_whole_text(completion):
    assert extract(completion, TAGS, "text") == completion


def test_the_tags_are_the_caller_s():
    assert (
        extract("<answer>3</answer><SOLUTION>4</SOLUTION>", AnswerTags("<answer>", "</answer>"))
        == "3"
    )
    assert extract("$$3$$", AnswerTags("$$", "$$")) == "3"


@pytest.mark.parametrize(
    ("unit", "place"),
    [
        ("<SOLUTION>", "tags"),
        ("</SOLUTION>", "tags"),
        ("<SOLUTION></SOLUTION>", "tags"),
        ("<SOLUTION></SOLUTION>", "tags-then-boxed"),
        (r"\boxed{", "boxed"),
        ("{", "boxed"),
        ("\\", "boxed"),
        (r"\boxed{1} and ", "boxed"),
        (r"\boxed{1}, ", "boxed"),
        (r"\boxed{1" + ", " * 29, "boxed"),
        ("} and ", "boxed"),
    ],
)
def test_extraction_is_linear(unit, place):
    """Forty times the text may take ten times as long a unit of it; quadratic would be forty."""

    def seconds(repeats):
        text = unit * repeats
        times = []
        for _ in range(3):
            began = time.process_time()
            extract(text, TAGS, place)
            times.append(time.process_time() - began)
        return min(times)

    assert seconds(20_000) < 40 * 10 * max(seconds(500), 1e-5)
