"""Rows as other programs and data sets write them, read by the names of their columns."""

import json
import logging

import pytest

from sage_cli.errors import DataError
from sage_cli.problems.golds import is_prose, is_worked, only_element, worked_answer
from sage_cli.problems.identity import problems_identity
from sage_cli.problems.load import load_problems
from sage_cli.settings.data import DataSection, FieldsSection

USER = {"role": "user", "content": "2+2=?"}
ASKED, SAID = {"from": "human", "value": "2+2=?"}, {"from": "gpt", "value": r"So \boxed{4}."}


def read(tmp_path, *rows, fields=None):
    file = tmp_path / "rows.jsonl"
    file.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return load_problems(str(file), DataSection(), fields)


@pytest.mark.parametrize(
    "row",
    [
        {"question": "2+2=?", "answer": "2 and 2 is <<2+2=4>>4.\n#### 4"},  # GSM8K
        {
            "problem": "2+2=?",
            "solution": r"Adding, $\boxed{4}$.",
            "level": "1",
            "type": "A",
        },  # MATH
        {"problem": "2+2=?", "solution": r"So \boxed{4}.", "answer": "4"},  # MATH-500
        {"Problem": "2+2=?", "Answer": 4},
        {"question": "2+2=?", "answer": "4", "info": {"a": 1}, "task": "sum"},  # verifiers
        {"prompt": "2+2=?", "verification_info": '{"ground_truth": "4"}'},  # prime-rl
        {"question": "2+2=?", "info": '{"answer": "4"}'},
        {
            "prompt": "2+2=?",
            "reward_model": {"ground_truth": "4"},
            "data_source": "math_dapo",
        },  # DAPO
        {"prompt": [USER], "reward_model": {"ground_truth": '["4"]'}},  # Skywork
        {"messages": [USER], "ground_truth": ["4"], "dataset": ["gsm8k"]},  # open-instruct
        {"messages": [USER, {"role": "assistant", "content": r"So \boxed{4}"}]},  # OpenAI
        {"conversations": [ASKED, SAID]},  # ShareGPT
        {"prompt": "2+2=?", "completion": r"It is \boxed{4}."},  # TRL
        {"prompt": [USER], "completion": [{"role": "assistant", "content": "4"}]},
        {"instruction": "2+2=?", "input": "", "output": "4"},  # Alpaca
        {"input": "2+2=?", "target": 4.0},
        {"problem": "2+2=?", "expected_answer": "4", "generated_solution": "Some text. It is 4."},
        {"query": "2+2=?", "response": "We add.\n#### 4"},
        {"question": "2+2=?", "solution": "We add 2 and 2. The sum is 4.", "final_answer": "4"},
        {"question": "2+2=?", "answer": "We add 2 and 2. The sum is 4.", "target": "4"},
    ],
)
def test_rows_are_read_by_the_names_of_their_columns(tmp_path, caplog, row):
    with caplog.at_level(logging.WARNING):
        (problem,) = read(tmp_path, row)
    assert (problem.question, problem.gold) == ("2+2=?", "4")
    assert "the question is" in caplog.text


def test_an_instruction_goes_on_in_its_input(tmp_path):
    rows = [
        {"instruction": "Add.", "input": "2, 2", "output": "4"},
        {"instruction": "1+1=?", "input": "", "output": "2"},
    ]
    assert [p.question for p in read(tmp_path, *rows)] == ["Add. 2, 2", "1+1=?"]


def test_a_row_without_the_bare_answer_takes_the_solutions(tmp_path):
    rows = [
        {"problem": "a", "answer": "4", "solution": r"So \boxed{5}."},
        {"problem": "b", "answer": None, "solution": r"So \boxed{5}."},
    ]
    first, second = read(tmp_path, *rows)
    assert (first.gold, first.gold_text) == ("4", None)
    assert (second.gold, second.gold_text) == ("5", r"So \boxed{5}.")


def test_what_a_solution_beside_the_gold_ends_with_is_kept(tmp_path):
    rows = [
        {"problem": "a", "answer": "4", "solution": r"So \boxed{5}."},
        {"problem": "b", "answer": "4", "solution": "A proof."},
    ]
    assert [p.solved for p in read(tmp_path, *rows)] == ["5", None]


def test_a_row_keeps_the_columns_that_it_was_read_from(tmp_path):
    (problem,) = read(tmp_path, {"prompt": "2+2=?", "ground_truth": ["4"], "level": 3})
    assert problem.own == {"prompt": "2+2=?", "ground_truth": ["4"]}
    assert problem.meta.keys() == {"level", "origin"}


def test_a_named_column_of_worked_solutions_is_read_as_one(tmp_path, caplog):
    row = {"ask": "2+2=?", "work": "It is\n#### 4"}
    with caplog.at_level(logging.WARNING):
        (problem,) = read(tmp_path, row, fields=FieldsSection(question="ask", gold="work"))
    assert problem.gold == "4"
    assert "worked solutions of work" in caplog.text


def test_one_named_column_leaves_the_other_to_be_recognised(tmp_path):
    row = {"ask": "2+2=?", "question": "no", "answer": "4"}
    (problem,) = read(tmp_path, row, fields=FieldsSection(question="ask"))
    assert (problem.question, problem.gold) == ("2+2=?", "4")


@pytest.mark.parametrize("column", ["choices", "Body", "image"])
def test_a_question_is_not_asked_without_what_belongs_to_it(tmp_path, column):
    row = {"question": "Which?", "answer": "4", column: ["3", "4"]}
    with pytest.raises(DataError, match=f"column {column} belongs to the questions"):
        read(tmp_path, row)
    (problem,) = read(tmp_path, {**row, column: []})
    assert problem.gold == "4"
    fields = FieldsSection(question="ask")
    (problem,) = read(tmp_path, {**row, "ask": "2 or 4?"}, fields=fields)
    assert problem.question == "2 or 4?"


@pytest.mark.parametrize(("answer", "rule"), [("4", "whole"), ("a\n#### 4", "worked_answer")])
def test_how_golds_are_read_is_part_of_the_identity(tmp_path, answer, rule):
    read(tmp_path, {"question": "2+2=?", "answer": answer})
    (known,) = problems_identity(str(tmp_path / "rows.jsonl"), DataSection())["problems"][0]
    assert known["columns"] == ["rows.jsonl", [["question"]], [["answer", rule]], None]


@pytest.mark.parametrize(
    ("text", "answer"),
    [
        ("#### 8", "8"),
        ("a\n#### 1\nb\n#### 2", "2"),
        ("a #### 1,234", "1234"),
        ("a #### -1,234.5", "-1234.5"),
        ("a #### (1, 2)", "(1, 2)"),  # commas that separate no thousands stay
        ("a #### 1,23", "1,23"),
        ("#### Step 1\nso \\boxed{7}", "7"),  # a heading of Markdown
        ("a ####", None),
        (r"We add. $\boxed{8}$", "8"),
        (r"So \boxed{1}, no: \boxed{\frac{1}{2}}.", r"\frac{1}{2}"),
        (r"So \boxed{\frac{1}{2}} then \boxed{3", r"\frac{1}{2}"),  # the last one that closes
        (r"so \boxed 5", "5"),
        (r"So \boxed{ }.", None),
    ],
)
def test_a_worked_solution_is_read_as_its_publisher_reads_it(text, answer):
    assert is_worked(text)
    assert worked_answer(text) == answer


@pytest.mark.parametrize(
    "text",
    [
        "5",
        "$5$",
        "x = 5, y = 7",
        r"\frac{1}{2}",
        "1,234",
        "(1, 2)",
        r"$\boxed{8}$",
        r"\boxed{8}",
        r"\[ \boxed{x^2} \]",
        r"\boxed{5} cm",
        "C#",
        "# 3",
        "miles per hour",
        "3 hours and 20 min.",
        r"\text{(A)} 5",
        "Monday, Tuesday",
        '["8", "9"]',
        "[9]",
        "all real numbers",
    ],
)
def test_a_plain_gold_is_never_cut(tmp_path, text):
    for beside in ({}, {"answer": "a #### 3"}):
        rows = [{"question": "a", "answer": text}, {"question": "b", "answer": "2", **beside}]
        assert read(tmp_path, *rows)[0].gold == text


@pytest.mark.parametrize(
    ("text", "element"),
    [
        ('["9"]', "9"),
        ('["9", "8"]', '["9", "8"]'),
        ("[9]", "[9]"),
        ('[""]', None),
        ("[x", "[x"),
    ],
)
def test_the_only_text_of_a_list_is_its_gold(text, element):
    assert only_element(text) == element


@pytest.mark.parametrize(
    "text",
    [
        "We add 2 and 3. The sum is 5.",
        "The sum is 5",
        "The answer: 5",
        "two\nlines",
        "x" * 301,
        "Alice has five apples left",
        "Therefore x equals 3",
    ],
)
def test_sentences_are_prose(text):
    assert is_prose(text)
