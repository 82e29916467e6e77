"""Dotted paths, and the forms of files that other programs read."""

from __future__ import annotations

import json
import logging
from pathlib import Path
from typing import Any

import pytest

from sage_cli.errors import DataError
from sage_cli.problems.load import load_problems, load_training_problems, problems_identity
from sage_cli.problems.rows import (
    after_hashes,
    as_text,
    before_unit,
    has,
    in_last_box,
    integer,
    is_number,
    value_at,
)
from sage_cli.settings.sections.data import DataSection, FieldsSection

USER = {"role": "user", "content": "2+2=?"}
SYSTEM = {"role": "system", "content": "Be brief."}
ANSWER = {"role": "assistant", "content": "4"}


def written(folder: Path, *rows: dict[str, Any]) -> Path:
    file = folder / "rows.jsonl"
    file.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return file


def test_a_path_reaches_into_objects_and_lists() -> None:
    row = {"a": {"b": [{"c": 1}, {"c": 2}]}, "a.b": "dotted", "one": ["x"]}
    assert value_at(row, "a.b.-1.c") == 2
    assert value_at(row, "a.b.0.c") == 1
    assert value_at(row, "a.b") == "dotted"
    assert value_at(row, "one") == "x"
    assert not any(has(row, path) for path in ("a.b.2.c", "a.b.-3.c", "a.b.x", "b", "one.0.y", ""))


@pytest.mark.parametrize(
    ("row", "program"),
    [
        (
            {"prompt": [SYSTEM, USER], "reward_model": {"style": "rule", "ground_truth": "4"}},
            "verl",
        ),
        ({"messages": [USER], "ground_truth": ["4"], "dataset": "gsm8k"}, "open-instruct"),
        ({"messages": [SYSTEM, USER, ANSWER], "ground_truth": "4"}, "open-instruct"),
        ({"prompt": "2+2=?", "solution": "4"}, "TRL"),
        ({"prompt": [USER], "answer": 4}, "TRL"),
    ],
)
def test_a_file_of_another_program_is_read_as_it_is(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, row: dict[str, Any], program: str
) -> None:
    with caplog.at_level(logging.WARNING):
        (problem,) = load_problems(str(written(tmp_path, row)), DataSection())
    assert (problem.question, problem.gold) == ("2+2=?", "4")
    assert f"has the columns of {program}" in caplog.text
    assert not {"prompt", "messages"} & problem.meta.keys()


def test_named_columns_are_taken_as_they_are_named(tmp_path: Path) -> None:
    row = {"prompt": [SYSTEM, USER], "extra": {"right": "5"}, "answer": "4"}
    fields = FieldsSection(question="prompt.0.content", gold="extra.right")
    (problem,) = load_problems(str(written(tmp_path, row)), DataSection(), fields)
    assert (problem.question, problem.gold) == ("Be brief.", "5")


def test_a_path_that_leads_nowhere_is_named(tmp_path: Path) -> None:
    fields = FieldsSection(question="prompt.-1.text", gold="answer")
    row = {"prompt": [USER], "answer": "4"}
    with pytest.raises(DataError, match=r"no column 'prompt.-1.text'"):
        load_problems(str(written(tmp_path, row)), DataSection(), fields)


def test_the_identity_of_a_file_with_our_columns_is_as_it_was(tmp_path: Path) -> None:
    file = written(tmp_path, {"question": "q", "gold": "4"})
    (known,) = problems_identity(str(file), DataSection())["problems"][0]
    assert known["columns"] == ["rows.jsonl", [["question"]], [["gold", "whole"]], None]


def test_a_detected_form_is_part_of_the_identity(tmp_path: Path) -> None:
    file = written(tmp_path, {"prompt": [USER], "answer": "4"})
    (known,) = problems_identity(str(file), DataSection())["problems"][0]
    assert known["columns"][1:3] == [[["prompt.-1.content"]], [["answer", "whole"]]]


def test_training_on_one_question_with_two_golds_is_said(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    rows = ({"question": "2+2=?", "gold": "4"}, {"question": "2+2=?\n", "gold": "5"})
    data = DataSection.model_validate({"rl": {"name": str(written(tmp_path, *rows))}})
    assert len(load_training_problems(data)) == 2
    assert "one question with two golds" in caplog.text


def test_a_spreadsheets_semicolons_are_read(tmp_path: Path) -> None:
    file = tmp_path / "rows.csv"
    file.write_text('question;gold\n"1;2, sum?";3\n')
    (problem,) = load_problems(str(file), DataSection())
    assert (problem.question, problem.gold) == ("1;2, sum?", "3")


@pytest.mark.parametrize(
    ("value", "text"),
    [(27.0, "27"), (-1.0, "-1"), (0.26, "0.26"), (7, "7"), (" a ", "a"), (None, "")],
)
def test_columns_as_text(value, text):
    assert as_text(value) == text


@pytest.mark.parametrize(
    ("text", "gold"),
    [
        (r"so \boxed{1.6} cm", "1.6"),
        (r"\boxed{1} then \boxed{\frac{a}{b}}.", r"\frac{a}{b}"),
        (r"\boxed{1} then \boxed{2", "1"),  # the last one never closes
        (r"\boxed{\text{a \{ b\}}}", r"\text{a \{ b\}}"),
        (r"\boxed{ }", None),
        (r"\boxed{ 3 }", "3"),
        (r"so \boxed {3} or \fbox{4}", "4"),
        ("no box", None),
    ],
)
def test_what_stands_in_the_last_box(text, gold):
    assert in_last_box(text) == gold


@pytest.mark.parametrize(
    ("text", "gold"),
    [("3*4=12\n#### 12", "12"), ("#### 1\n#### 2,125", "2125"), ("12", None), ("####", None)],
)
def test_after_hashes(text, gold):
    assert after_hashes(text) == gold


@pytest.mark.parametrize(("text", "gold"), [("033", "33"), ("-007", "-7"), ("p", "p"), ("", None)])
def test_integers_lose_leading_zeros(text, gold):
    assert integer(text) == gold


@pytest.mark.parametrize(
    ("text", "gold"), [("9 (apples)", "9"), ("6:7", "6:7"), ("5 (left) (over)", "5 (left)")]
)
def test_units_in_parentheses_are_left_out(text, gold):
    assert before_unit(text) == gold


@pytest.mark.parametrize("text", ["12", "-0.5", "1e5", " 7 "])
def test_numbers(text):
    assert is_number(text)


@pytest.mark.parametrize("text", ["", "nan", "inf", r"\frac{1}{2}", "1_000", "3 m"])
def test_what_is_no_number(text):
    assert not is_number(text)
