"""The golds of published benchmarks: each accepts itself and refuses its neighbour."""

import json

import pytest

from sage_cli.grading import Grader
from sage_cli.grading.grader import check_golds

COUNTS = {"aime24": 30, "aime25": 30, "amc23": 40, "math500": 500, "minerva": 272, "gsm8k": 1319}


@pytest.mark.parametrize("name", COUNTS)
def test_every_gold_of_a_benchmark_grades_itself_right(facts, grader, name):
    golds = json.loads((facts / f"golds/{name}.json").read_text(encoding="utf-8"))["golds"]
    assert len(golds) == COUNTS[name]
    assert check_golds([(str(number), gold) for number, gold in enumerate(golds)]) == []
    shifted = [*golds[1:], golds[0]]
    completions = [f"<SOLUTION>{gold}</SOLUTION>" for gold in shifted]
    statuses = [grade.status for grade in grader.grade_many(zip(golds, completions, strict=True))]
    paid = [
        (gold, other)
        for gold, other, status in zip(golds, shifted, statuses, strict=True)
        if status == "right" and str(gold).replace(" ", "") != str(other).replace(" ", "")
    ]
    assert paid == ([("5", "x=5")] if name == "math500" else [])


def test_golds_that_do_not_grade_themselves_right_are_named():
    golds = [("a", "27"), ("b", ""), ("c", r"\sqrt{66}"), ("d", None), ("e", 3.0), ("f", "$$")]
    assert check_golds(golds) == ["b", "d", "f"]
    assert check_golds([("a", "Ann is a knight."), ("b", "27")], judge="roles") == ["b"]


@pytest.mark.parametrize(
    ("name", "count"),
    [
        ("grading_cases", 84),
        ("grading_forms", 187),
        ("grading_units", 93),
        ("grading_notation", 57),
    ],
)
def test_every_judged_case(facts, grader, name, count):
    lines = (facts / f"{name}.jsonl").read_text(encoding="utf-8").splitlines()
    cases = [json.loads(line) for line in lines]
    assert len(cases) == count
    grades = grader.grade_many(
        (case["gold"], f"So we are done.\n<SOLUTION>{case['answer']}</SOLUTION>") for case in cases
    )
    wrong = [
        (case, grade.status)
        for case, grade in zip(cases, grades, strict=True)
        if (grade.status == "right") != case["right"] or grade.status in ("timeout", "error")
    ]
    assert wrong == []


def test_every_judged_completion_with_boxes(facts):
    lines = (facts / "grading_boxes.jsonl").read_text(encoding="utf-8").splitlines()
    cases = [json.loads(line) for line in lines]
    assert len(cases) == 5
    with Grader(extract="boxed") as boxed:
        grades = boxed.grade_many((case["gold"], case["completion"]) for case in cases)
    assert [grade.status == "right" for grade in grades] == [case["right"] for case in cases]
