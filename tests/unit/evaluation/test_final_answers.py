"""The votes of graded samples."""

import pytest
from stored import Sample, answered

from sage_cli.errors import ConfigurationError
from sage_cli.evaluation.final_answers import count_answers
from sage_cli.metrics.estimators import RIGHT

A = [
    Sample("a1", "right", "1"),
    Sample("a2", "wrong", " A b"),
    Sample("a3", "wrong", "aB"),
    Sample("a4", "unparseable"),
    Sample("a5", "right", "1.0"),  # what is correct is one answer, however it is written
]
B = [Sample(f"b{number}", "wrong", "7") for number in range(5)]


def test_final_answers_are_counted_by_problem(tmp_path):
    (grades,) = answered(tmp_path, "p", {"a": A, "b": B}).grades
    assert count_answers(grades, ["b", "a"], 5) == ({"= 7": 5}, {RIGHT: 2, "= ab": 2, None: 1})
    assert count_answers(grades, ["a"], 2) == ({RIGHT: 1, "= ab": 1},)  # the first samples alone


def test_a_judge_that_only_says_right_or_wrong_has_no_votes(tmp_path):
    silent = [Sample("c1", "right"), Sample("c2", "wrong"), Sample("c3", "timeout")]
    (grades,) = answered(tmp_path / "1", "p", {"c": silent}).grades
    with pytest.raises(ConfigurationError, match="none of 1 wrong samples has a final answer"):
        count_answers(grades, ["c"], 3)
    # of another program's log, in which some answers were found and some weren't
    (grades,) = answered(tmp_path / "2", "p", {"c": [*silent, Sample("c4", "wrong", "7")]}).grades
    assert count_answers(grades, ["c"], 4) == ({RIGHT: 1, "= 7": 1, None: 2},)
