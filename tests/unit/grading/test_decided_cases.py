"""Answers that people decided on: how many wrong ones are paid, and how many right ones refused."""

import json
from itertools import groupby

import pytest

from sage_cli.grading import Grader

PAID, REFUSED = 0, 5
"""Most that may be; a limit is lowered when the grader gets better, and never raised."""


def kind_of(case):
    judge = "roles" if "knave" in case["category"] else "math"
    return judge, case["extract"], case.get("tolerance") or 0


@pytest.mark.slow
def test_few_decided_cases_are_graded_otherwise(shared):
    file = shared / "grading" / "cases4.jsonl"
    if not file.exists():
        pytest.skip("no decided cases beside the published rows")
    cases = [json.loads(line) for line in file.read_text(encoding="utf-8").splitlines()]
    undocumented = sorted((case for case in cases if not case["documented"]), key=kind_of)
    paid, refused = [], []
    for (judge, place, tolerance), group in groupby(undocumented, kind_of):
        alike = list(group)
        with Grader(judge=judge, extract=place, tolerance=tolerance or None) as grader:
            grades = grader.grade_many((case["gold"], case["text"]) for case in alike)
        for case, grade in zip(alike, grades, strict=True):
            if (grade.status == "right") != case["right"]:
                (refused if case["right"] else paid).append((case["gold"], case["text"]))
    assert len(cases) == 1124
    assert len(paid) <= PAID, paid
    assert len(refused) <= REFUSED, refused
