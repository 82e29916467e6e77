"""Golds that nobody could meet, found before anything is trained or measured."""

import json

import pytest

from sage_cli.errors import DataError
from sage_cli.evaluation.golds import check_answers, usable_problems
from sage_cli.problems.load import load_problems
from sage_cli.settings.data import DataSection


def checked(tmp_path, *rows, judge="math"):
    file = tmp_path / "rows.jsonl"
    file.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return check_answers(str(file), load_problems(str(file), DataSection()), judge)


def solved(number, gold, solution):
    return {"problem": f"What is {number}?", "answer": str(gold), "solution": solution}


@pytest.mark.parametrize(
    "row",
    [
        {"question": "a", "answer": "We add.\n#### 1,234"},
        {"question": "a", "solution": r"So $\boxed{\frac{1}{2}}$, or \boxed{0.5}."},  # equal values
        {"question": "a", "answer": "0.5", "solution": r"So \boxed{\frac{1}{2}}."},
        {"question": "a", "answer": "miles per hour"},
        {"prompt": "a", "reward_model": {"ground_truth": "5"}, "ability": "MATH"},
        {"prompt": "a", "answer": "5", "data_source": "math_dapo", "info": {"tools": []}},
    ],
)
def test_answers_pass(tmp_path, row):
    assert checked(tmp_path, row) == []


@pytest.mark.parametrize(
    ("rows", "complaint"),
    [
        (
            [
                {"question": "a", "answer": "2"},
                {"question": "b", "answer": "We add. The sum is 5."},
            ],
            "1 of 2 golds of .* are prose .*'b': We add. The sum is 5.",
        ),
        (
            [{"question": "a", "solution": r"So \boxed{1}, or \boxed{2}."}],
            "1 row of .* has boxes of different values.*'a': 2 and 1",
        ),
        ([{"question": "a", "answer": "\\boxed{3}\n#### 4"}], "boxes of different values.*4 and 3"),
        (
            [
                {"prompt": "a", "answer": "5", "ability": "math"},
                {"prompt": "b", "answer": "5", "ability": "math"},
                {"prompt": "c", "answer": "5", "ability": "code"},
            ],
            "rows that aren't mathematics: code; its rows by kind: math 2, code 1",
        ),
        (
            [
                {
                    "messages": [{"role": "user", "content": "a"}],
                    "ground_truth": "x",
                    "dataset": ["ifeval"],
                }
            ],
            "aren't mathematics: ifeval",
        ),
        ([{"prompt": "a", "answer": "crane", "info": '{"tools": ["guess"]}'}], "with tools"),
        (
            [
                {
                    "prompt": "a",
                    "reward_model": {"ground_truth": '{"inputs": ["1"], "outputs": ["1"]}'},
                }
            ],
            "with a gold in JSON",
        ),
        ([{"question": "a", "answer": "#### $"}], "isn't graded correct as an answer to itself"),
    ],
)
def test_what_is_no_answer_is_refused_with_the_number_of_rows(tmp_path, rows, complaint):
    with pytest.raises(DataError, match=complaint):
        checked(tmp_path, *rows)
    assert checked(tmp_path, *rows, judge="mine.py:judge") == []


PROSE = {"problem": "Why?", "answer": "We add 2 and 3. The sum is 5."}
TWO_BOXES = {"problem": "Which?", "answer": r"So \boxed{1}, or \boxed{2}."}


def usable(tmp_path, *rows, judge="math"):
    file = tmp_path / "rows.jsonl"
    file.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return usable_problems(str(file), load_problems(str(file), DataSection()), judge)


def test_a_few_rows_without_a_usable_gold_are_left_out_of_training_and_counted(tmp_path):
    plain = [{"problem": f"What is {number}?", "answer": str(number)} for number in range(38)]
    problems, notes = usable(tmp_path, *plain, PROSE, TWO_BOXES)  # 2 of 40 are 5 %
    assert [problem.question for problem in problems] == [row["problem"] for row in plain]
    prose, boxes = notes
    assert "left out of training: 1 of 40 golds" in prose
    assert "'Why?': We add 2 and 3." in prose
    assert "1 row of " in boxes
    assert "'Which?': 2 and 1" in boxes
    with pytest.raises(DataError, match=r"1 of 39 golds .* are prose"):
        usable(tmp_path, *plain[:-1], PROSE, TWO_BOXES)  # 2 of 39 are 5.1 %
    assert len(usable(tmp_path, *plain[:-1], PROSE, TWO_BOXES, judge="mine.py:judge")[0]) == 39
    with pytest.raises(DataError, match="are prose"):  # a benchmark's mean would lack a problem
        checked(tmp_path, *plain, PROSE)


def test_a_row_of_another_kind_is_refused_however_few_there_are(tmp_path):
    plain = [{"prompt": f"{number}?", "answer": str(number)} for number in range(99)]
    with pytest.raises(DataError, match="aren't mathematics: code"):
        usable(tmp_path, *plain, {"prompt": "Sort.", "answer": "5", "ability": "code"})


def test_solutions_that_end_otherwise_are_said_up_to_one_in_a_hundred(tmp_path):
    right = [solved(number, number, rf"It is \boxed{{{number}}}.") for number in range(99)]
    (warning,) = checked(tmp_path, *right, solved(99, 99, r"It is \boxed{7}."))
    assert "1 of 100 worked solutions" in warning  # 1 / 100 is not above 1 %
    assert "'What is 99?': 99 against 7" in warning
    with pytest.raises(DataError, match="1 of 99 worked solutions"):  # 1 / 99 is
        checked(tmp_path, *right[1:], solved(99, 99, r"It is \boxed{7}."))


def test_registered_data_sets_are_known(tmp_path):
    file = tmp_path / "rows.jsonl"
    file.write_text(json.dumps({"question": "a", "gold": "We add. It is 5."}))
    assert check_answers("arithmetic", load_problems(str(file), DataSection()), "math") == []
