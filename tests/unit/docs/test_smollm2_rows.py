"""The rows of examples/smollm2: what is kept, how it is written, and that stories stay apart."""

import json
from fractions import Fraction

import pytest
from smollm2 import make_rows, one_operation

ASDIV = [
    {"body": "Ann has 2 pens.", "question": "How many?", "answer": "9 (pens)", "formula": "7+2=9"},
    {"body": "A rope", "question": "How long?", "answer": "2.5 (m)", "formula": "5/2=2.5"},
    {"body": "x", "question": "y?", "answer": "5", "formula": "40/7=5"},  # false
    {"body": "x", "question": "y?", "answer": "Yes", "formula": "1+1=2"},
    {"body": "x", "question": "y?", "answer": "18", "formula": "2:3=12:18"},
    {"body": "x", "question": "y?", "answer": "3", "formula": "94/8=11 r6"},
]
SVAMP = [
    {
        "Body": f"story {i // 2}",
        "Question": "How many?",
        "Equation": "( 30.0 - 11.0 )",
        "Answer": 19.0,
    }
    for i in range(900)
]


@pytest.mark.parametrize(
    ("formula", "expected"),
    [
        ("(1+2)*3", Fraction(9)),
        ("1/3", Fraction(1, 3)),
        ("0.1+0.2", Fraction(3, 10)),
        ("1/0", None),
        ("x+1", None),
        ("2**9", None),
        ("__import__('os')", None),
        ("", None),
    ],
)
def test_value_of_arithmetic_alone(formula, expected):
    assert make_rows.value(formula) == expected


@pytest.mark.parametrize(
    ("completion", "right"),
    [
        ("10 + 6 = 16<end_working_out><SOLUTION>16</SOLUTION>", True),
        ("5+10+6=16<end_working_out><SOLUTION>16</SOLUTION>", False),  # 21
        ("<start_working_out>22-6<end_working_out><SOLUTION>16</SOLUTION>", True),
        ("16=16<end_working_out><SOLUTION>16</SOLUTION>", False),  # no working
        ("1,016-1,000=16<end_working_out><SOLUTION>16</SOLUTION>", True),
        ("ten and six<end_working_out><SOLUTION>16</SOLUTION>", False),
    ],
)
def test_a_right_answer_by_a_right_working(completion, right):
    assert make_rows.right_working("", completion, "16") is right


def test_guesses_of_one_operation_on_two_numbers():
    # 7 and 2: 9, 9, 5, -5, 14, 14, 7/2, 2/7; two of eight give 9
    assert one_operation.chance("Ann has 7 pens and finds two.", "9") == 2 / 8
    assert one_operation.chance("Ann has a pen.", "1") == 0


def test_rows_are_whose_formula_gives_the_gold_and_stories_stay_apart(tmp_path, monkeypatch):
    (tmp_path / "train").mkdir()
    for name, rows in (("asdiv", ASDIV), ("svamp", SVAMP)):
        (tmp_path / f"train/{name}.jsonl").write_text("".join(json.dumps(r) + "\n" for r in rows))
    monkeypatch.setenv("SAGE_DATA", str(tmp_path))
    make_rows.main(tmp_path / "out")
    train, dev, test = (
        [json.loads(line) for line in (tmp_path / f"out/{name}.jsonl").open()]
        for name in ("train", "dev", "test")
    )
    assert train == [
        {"question": "Ann has 2 pens. How many?", "working": "7+2=9", "gold": "9"},
        {"question": "A rope. How long?", "working": "5/2=2.5", "gold": "2.5"},
    ]
    assert (len(test), len(dev)) == (400, 500)
    assert not {row["question"] for row in test} & {row["question"] for row in dev}
    assert (test[0]["working"], test[0]["gold"]) == ("30 - 11", "19")


def test_runs_of_eight_words_mask_numbers():
    questions = ["a b c d e f g 12 i", "A b c d e f g 7 j", "a b c"]
    first, second, short = make_rows.runs([{"question": text} for text in questions])
    assert first & second == {("a", "b", "c", "d", "e", "f", "g", "#")}
    assert short == set()
