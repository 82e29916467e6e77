"""`sage grade` as typed."""

import json
import re
from pathlib import Path

import pytest

ROWS = rb"""{"gold": "27", "completion": "<SOLUTION>27</SOLUTION>"}
{"gold": "27", "completions": ["<SOLUTION>0=27</SOLUTION>", "<SOLUTION>[b]28</SOLUTION>", 5]}
{"gold": "27"
[1]

{"completion": "<SOLUTION>27</SOLUTION>"}
{"gold": "27", "completions": 5}
{"gold": "27", "completion": "<SOLUTION>\ud800</SOLUTION>"}
"""


@pytest.fixture
def grade(sage):
    """Type the command with a file of these bytes."""

    def type_(content, *words):
        if content is not None:
            Path("rows.jsonl").write_bytes(content)
        return sage("grade", "rows.jsonl", *words)

    return type_


def statuses(typed):
    """The statuses that completions got, by mode."""
    found = typed.answer["statuses"]
    return {mode: [name for name, n in counts.items() if n] for mode, counts in found.items()}


def test_statuses_and_the_lines_left_out_as_a_table_and_as_an_object(grade):
    typed = grade(ROWS)
    assert typed.code == 0
    counts = dict(re.findall(r"^(\w+) +(\d+) *$", typed.stdout, re.MULTILINE))
    # right 27; wrong 0=27, [b]28 and the surrogate; the number 5 is no completion
    assert counts == {
        "correct": "1",
        "wrong": "3",
        "unparseable": "1",
        "timeout": "0",
        "error": "0",
        "completions": "5",
    }
    assert re.findall(r"line (\d+) is left out", typed.words) == ["3", "4", "6", "7"]
    found = grade(ROWS, "--json").answer
    assert found["statuses"] == {
        "strict": {"right": 1, "wrong": 3, "unparseable": 1, "timeout": 0, "error": 0}
    }
    assert [one["line"] for one in found["malformed"]] == [3, 4, 6, 7]
    assert [(one["line"], one["index"], one["strict"]) for one in found["grades"]] == [
        (1, 0, "right"),
        (2, 0, "wrong"),
        (2, 1, "wrong"),
        (2, 2, "unparseable"),
        (8, 0, "wrong"),
    ]


REASONS = [
    (
        '{"gold": [1, 2], "completion": "<SOLUTION>1</SOLUTION>"}',
        "error",
        "the gold is not a text or finite number: [1, 2]",
    ),
    *(
        (
            f'{{"gold": {gold}, "completion": "<SOLUTION>{gold}</SOLUTION>"}}',
            "error",
            f"the gold is not a text or finite number: {float(gold)}",
        )
        for gold in ("NaN", "-Infinity")
    ),
    ('{"gold": " ", "completion": "<SOLUTION>1</SOLUTION>"}', "error", "the gold is blank"),
    (
        '{"gold": "7", "completion": "7"}',
        "unparseable",
        "nothing is closed in <SOLUTION> ... </SOLUTION>",
    ),
    ('{"gold": "7", "completion": "<SOLUTION> </SOLUTION>"}', "unparseable", "the answer is blank"),
    ('{"gold": "7", "completion": "<SOLUTION></SOLUTION>"}', "unparseable", "the answer is blank"),
    (
        '{"gold": "7", "completion": "<SOLUTION>$$</SOLUTION>"}',
        "unparseable",
        "judge 'math' can't read the answer",
    ),
    ('{"gold": "7", "completion": 7}', "unparseable", "the completion is not a text"),
]


@pytest.mark.parametrize(("row", "status", "reason"), REASONS)
def test_a_row_without_a_verdict_says_why(grade, row, status, reason):
    right = '{"gold": "7", "completion": "<SOLUTION>7</SOLUTION>"}'
    rows = f"{right}\n{row}".encode()
    grades = grade(rows, "--json").answer["grades"]
    assert [(row["strict"], row["reason"]) for row in grades] == [("right", None), (status, reason)]
    assert f"line 2, completion 0: {status}; {reason}" in grade(rows).words


@pytest.mark.slow
def test_both_modes_show_where_they_differ(grade):
    lines = [
        line
        for line in grade(ROWS, "--mode", "both").stdout.splitlines()
        if "-verify correct" in line
    ]
    assert lines == [
        "line 2, completion 0: strict wrong, math-verify correct; gold '27', answer '0=27'"
    ]


@pytest.mark.parametrize(
    ("gold", "completion", "words", "expected"),
    [
        ("27", r"\boxed{27}", "--extract boxed", {"strict": ["right"]}),
        ("27", r"\boxed{27}", "--extract tags-then-boxed", {"strict": ["right"]}),
        ("27", r"\boxed{27}", "--extract tags", {"strict": ["unparseable"]}),
        pytest.param(
            "27",
            "It is 27.",
            "--extract text --mode math-verify",
            {"math-verify": ["right"]},
            marks=pytest.mark.slow,
        ),
        (
            "Ann is a knight.",
            "<SOLUTION>Ann: knight</SOLUTION>",
            "--judge roles",
            {"strict": ["right"]},
        ),
        *(("<", f"<SOLUTION>{sign}</SOLUTION>", "", {"strict": ["wrong"]}) for sign in ">2="),
    ],
)
def test_answers_in_boxes_and_other_judges(grade, gold, completion, words, expected):
    row = json.dumps({"gold": gold, "completion": completion})
    assert statuses(grade(row.encode(), *words.split(), "--json")) == expected


@pytest.mark.parametrize("log", [False, True], ids=["own rows", "with verdicts"])
@pytest.mark.parametrize(
    ("choices", "status"),
    [
        (None, "right"),  # 2500 g are 2.5 kg, and the question leaves the unit open
        (["2.5 kg", "7 g"], "right"),
        (["2500 g", "7 g"], "wrong"),  # the choice says it in grams, so kilograms are asked for
    ],
)
def test_choices_belong_to_the_question_that_the_judge_reads(grade, choices, status, log):
    row = {"question": "How heavy is it?", "choices": choices, "gold": "2.5 kg"}
    row |= {"completion": "<SOLUTION>2500 g</SOLUTION>"} | (
        {"problem": 1, "correct": False} if log else {}
    )
    found = grade(json.dumps(row).encode(), "--json").answer["grades"]
    assert [one["strict"] for one in found] == [status]


@pytest.mark.parametrize(
    ("content", "words", "message"),
    [
        (None, "", "cannot be read"),
        (b"", "", "has no rows to grade"),
        (b"\xff\xfe\n", "", "line 1: not JSON"),
        (b'{"gold": "1", "completion": "1"}', "--judge maths", "unknown judge 'maths'"),
        (b'{"gold": "1", "completion": "1"}', "--extract text", "use grading.mode=math-verify"),
        (
            b'{"question": "1", "gold": "1", "completion": "1", "correct": true}',
            "--mode both",
            "use --mode math-verify --extract text, or --extract tags-then-boxed",
        ),
    ],
)
def test_mistakes_are_panels(grade, content, words, message):
    grade(content, *words.split()).refused(message)


def test_what_a_log_leaves_out_is_said(sage, answer):
    said = {"choices": [{"message": {"content": "4"}, "stop_reason": "stop"}]}
    sample = {"id": 1, "input": "2+2=?", "target": "4", "output": said}
    made = [
        {**sample, "epoch": 1, "scores": {"match": {"value": "C"}}},
        {**sample, "epoch": 2, "error": {"message": "lost"}},
    ]
    log = {"eval": {}, "status": "error", "samples": made}
    Path("log.json").write_text(json.dumps(log))
    found = answer("grade", "log.json")
    assert (found["program"], found["left_out"]) == ("inspect", {"they failed": 1})
    words = sage("grade", "log.json").words
    assert "1 sample left out: they failed" in words
    assert "status error" in words
