"""A judge that is a function of one's own: shares, failures, deadline, identity."""

import logging

import pytest

from sage_cli.errors import ConfigurationError
from sage_cli.grading import Grade, Grader
from sage_cli.grading.grader import check_golds
from sage_cli.grading.grades import is_judged, status_of

SOURCE = """
import time

def close(answer, gold):
    if answer == "forever":
        time.sleep(60)
    if answer == "patience":
        raise TimeoutError
    if answer in ("nan", "much", "word"):
        return {"nan": float("nan"), "much": 1.5, "word": "right"}[answer]
    if answer == gold:
        return True
    return max(0.0, 1 - abs(float(answer) - float(gold)) / 10)
"""


@pytest.fixture(scope="module")
def file(tmp_path_factory):
    path = tmp_path_factory.mktemp("judges") / "mine.py"
    path.write_text(SOURCE)
    return path


@pytest.fixture(scope="module")
def grader(file):
    with Grader(judge=f"{file}:close", timeout_s=1) as grader:
        yield grader


def tagged(answer: str) -> str:
    return f"so <SOLUTION>{answer}</SOLUTION>"


def test_shares_by_hand(grader):
    """|7 - 10| / 10 = .3 from 1; a share of 1 is right, all others are wrong."""
    grades = grader.grade_many([("10", tagged(text)) for text in ("10", "10.0", "7", "99")])
    assert grades == [
        Grade("right", "10"), Grade("right", "10.0", 1.0), Grade("wrong", "7", 0.7),
        Grade("wrong", "99", 0.0),
    ]  # fmt: skip
    assert [grade.reward for grade in grades] == [1.0, 1.0, 0.7, 0.0]
    again = grader.grade_many([("10", tagged("7")), ("10", "no tags")])
    assert again == [Grade("wrong", "7", 0.7), Grade("unparseable", None)]


@pytest.mark.parametrize("answer", ["forever", "patience"])
def test_it_has_a_hard_deadline(grader, answer):
    assert grader.grade("10", tagged(answer)).status == "timeout"


def test_a_failure_is_an_error_and_its_line_is_told_once(file, caplog):
    with caplog.at_level(logging.WARNING), Grader(judge=f"{file}:close") as grader:
        statuses = [grader.grade("10", tagged(text)).status for text in ("ten", "nan", "10")]
    assert statuses == ["error", "error", "right"]
    (message,) = (record.getMessage() for record in caplog.records)
    assert "judge 'mine.py:close' fails, and such answers count as errors" in message
    assert "could not convert string to float: 'ten' (mine.py, line 13)" in message


@pytest.mark.parametrize("answer", ["nan", "much", "word"])
def test_what_is_no_share_is_an_error(grader, answer):
    assert grader.grade("10", tagged(answer)).status == "error"


def test_programs_may_be_long(grader, file):
    assert grader.grade("1" * 5000, tagged("1" * 5000)).status == "right"


def test_the_identity_is_the_content(file, tmp_path):
    identities = []
    for source in (SOURCE, SOURCE, SOURCE + "\n"):
        copy = tmp_path / f"{len(identities)}" / "mine.py"
        copy.parent.mkdir()
        copy.write_text(source)
        with Grader(judge=f"{copy}:close") as grader:
            identities.append(grader.identity)
    assert identities[0] == identities[1] != identities[2]
    assert identities[0].judge == "mine.py:close"
    with Grader(judge="math") as grader:
        assert grader.identity.version == "3"


def test_golds_may_be_no_answers_but_must_not_fail(file, tmp_path):
    assert check_golds([("a", "3"), ("b", "much")], judge=f"{file}:close") == ["b"]
    (tmp_path / "never.py").write_text("def never(answer, gold):\n    return False")
    assert check_golds([("a", "3")], judge=f"{tmp_path}/never.py:never") == []


def test_a_function_that_is_not_there_is_refused(file):
    with pytest.raises(ConfigurationError, match="defines no 'clos'"):
        Grader(judge=f"{file}:clos")


def test_a_share_is_right_where_it_is_one():
    assert [status_of(one) for one in (1.0, 0.999, 0.0, "timeout")] == [
        "right", "wrong", "wrong", "timeout",
    ]  # fmt: skip
    yes, no = (0, 0.5, 1, "right"), (-0.1, 1.1, float("nan"), "yes", None)
    assert [is_judged(one) for one in (*yes, *no)] == [True] * 4 + [False] * 5
