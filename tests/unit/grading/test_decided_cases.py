"""Answers that people decided on: how many wrong ones are rewarded, how many correct refused."""

import json
from itertools import groupby

import pytest

from sage_cli.grading import Grader

LIMITS = [
    # the file, its cases, the most wrong answers rewarded, the most correct ones refused
    ("cases.jsonl", 84, 0, 0),
    ("cases4.jsonl", 1124, 0, 3),
    ("cases5.jsonl", 932, 0, 3),
]
"""Limits are lowered when the grader gets better, and never raised."""


def in_one_form(case):
    """Return gold, completion, verdict and what the grader is made of."""
    kind = case.get("kind") or case.get("category") or ""
    text = case.get("text") or case.get("completion")
    return {
        "gold": case["gold"],
        "text": text or f"So we are done.\n\\boxed{{{case['answer']}}}",
        "right": case["right"] if "right" in case else case["expected"],
        "documented": case.get("documented", False),
        "judge": case.get("judge") or ("roles" if "knave" in kind else "math"),
        "extract": case.get("extract") or ("boxed" if "kind" in case else "tags"),
        "tolerance": case.get("tolerance") or 0,
    }


def grader_of(case):
    return case["judge"], case["extract"], case["tolerance"]


@pytest.mark.slow
@pytest.mark.parametrize(("name", "count", "most_rewarded", "most_refused"), LIMITS)
def test_few_decided_cases_are_graded_otherwise(shared, name, count, most_rewarded, most_refused):
    file = shared / "grading" / name
    if not file.exists():
        pytest.skip(f"no {name} beside the published rows")
    lines = file.read_text(encoding="utf-8").splitlines()
    cases = [in_one_form(json.loads(line)) for line in lines]
    rewarded, refused = [], []
    undocumented = sorted((case for case in cases if not case["documented"]), key=grader_of)
    for (judge, place, tolerance), group in groupby(undocumented, grader_of):
        alike = list(group)
        with Grader(judge=judge, extract=place, tolerance=tolerance or None) as grader:
            grades = grader.grade_many((case["gold"], case["text"]) for case in alike)
        for case, grade in zip(alike, grades, strict=True):
            if (grade.status == "right") != case["right"]:
                (refused if case["right"] else rewarded).append((case["gold"], case["text"]))
    assert len(cases) == count
    assert len(rewarded) <= most_rewarded, rewarded
    assert len(refused) <= most_refused, refused
