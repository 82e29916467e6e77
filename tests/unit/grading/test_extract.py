"""Where the answer stands."""

import time

import pytest

from sage_cli.grading.extract import AnswerTags, extract

TAGS = AnswerTags()
BOXED = AnswerTags(boxed=True)


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
        (r"so \boxed{27}.", "27"),
        (r"\boxed{1} then \boxed{\frac{1}{2}}", r"\frac{1}{2}"),
        (r"\boxed {27}", "27"),
        (r"\fbox{27}", "27"),
        (r"\boxed{\{1,2\}}", r"\{1,2\}"),
        (r"\boxed{a \boxed{b}}", "b"),
        (r"\boxed{27} \boxed{28", "27"),
        (r"} {\boxed{27}", "27"),
        (r"\boxed 27", None),
        ("27", None),
    ],
)
def test_the_last_closed_box(completion, answer):
    assert extract(completion, BOXED) == answer


def test_the_tags_are_the_caller_s():
    assert (
        extract("<answer>3</answer><SOLUTION>4</SOLUTION>", AnswerTags("<answer>", "</answer>"))
        == "3"
    )
    assert extract("$$3$$", AnswerTags("$$", "$$")) == "3"


@pytest.mark.parametrize(
    ("unit", "tags"),
    [
        ("<SOLUTION>", TAGS),
        ("</SOLUTION>", TAGS),
        ("<SOLUTION></SOLUTION>", TAGS),
        (r"\boxed{", BOXED),
        ("{", BOXED),
        ("\\", BOXED),
    ],
)
def test_extraction_is_linear(unit, tags):
    """Forty times the text may take ten times as long a unit of it; quadratic would be forty."""

    def seconds(repeats):
        text = unit * repeats
        times = []
        for _ in range(3):
            began = time.perf_counter()
            extract(text, tags)
            times.append(time.perf_counter() - began)
        return min(times)

    assert seconds(80_000) < 40 * 10 * max(seconds(2_000), 1e-5)
