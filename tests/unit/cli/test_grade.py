"""`sage grade` as typed."""

import json
import re

import pytest
from typer.testing import CliRunner

from sage_cli.cli import grade
from sage_cli.cli.app import new_app

ROWS = rb"""{"gold": "27", "completion": "<SOLUTION>27</SOLUTION>"}
{"gold": "27", "completions": ["<SOLUTION>0=27</SOLUTION>", "<SOLUTION>[b]28</SOLUTION>", 5]}
{"gold": "27"
[1]

{"completion": "<SOLUTION>27</SOLUTION>"}
{"gold": "27", "completions": 5}
{"gold": "27", "completion": "<SOLUTION>\ud800</SOLUTION>"}
"""


@pytest.fixture
def type_(monkeypatch, tmp_path):
    """Type the command with a file of these bytes."""
    monkeypatch.setenv("COLUMNS", "200")
    app = new_app("test")
    app.command("grade")(grade.command)
    app.command("other")(lambda: None)

    def run(content, *words):
        path = tmp_path / "rows.jsonl"
        if content is not None:
            path.write_bytes(content)
        return CliRunner().invoke(app, ["grade", str(path), *words])

    return run


def test_statuses_and_the_lines_left_out_as_a_table_and_as_an_object(type_):
    done = type_(ROWS)
    assert done.exit_code == 0, done.output
    counts = dict(re.findall(r"^(\w+) +(\d+) *$", done.output, re.MULTILINE))
    # right 27; wrong 0=27, [b]28 and the surrogate; the number 5 is no completion
    assert counts == {
        "right": "1", "wrong": "3", "unparseable": "1", "timeout": "0", "error": "0",
        "completions": "5",
    }  # fmt: skip
    assert re.findall(r"line (\d+) is left out", done.output) == ["3", "4", "6", "7"]
    done = type_(ROWS, "--json")
    found = json.loads(done.stdout)
    assert found["statuses"] == {
        "strict": {"right": 1, "wrong": 3, "unparseable": 1, "timeout": 0, "error": 0}
    }
    assert [one["line"] for one in found["malformed"]] == [3, 4, 6, 7]
    assert [(one["line"], one["index"], one["strict"]) for one in found["grades"]] == [
        (1, 0, "right"), (2, 0, "wrong"), (2, 1, "wrong"), (2, 2, "unparseable"), (8, 0, "wrong"),
    ]  # fmt: skip


REASONS = [
    ('{"gold": [1, 2], "completion": "<SOLUTION>1</SOLUTION>"}', "error",
     "the gold is no text or number: [1, 2]"),
    ('{"gold": " ", "completion": "<SOLUTION>1</SOLUTION>"}', "error", "the gold is blank"),
    ('{"gold": "7", "completion": "7"}', "unparseable",
     "nothing closed stands in <SOLUTION> ... </SOLUTION>"),
    ('{"gold": "7", "completion": "<SOLUTION> </SOLUTION>"}', "unparseable", "the answer is blank"),
    ('{"gold": "7", "completion": "<SOLUTION></SOLUTION>"}', "unparseable", "the answer is blank"),
    ('{"gold": "7", "completion": "<SOLUTION>$$</SOLUTION>"}', "unparseable",
     "judge 'math' can't read the answer"),
    ('{"gold": "7", "completion": 7}', "unparseable", "the completion is no text"),
]  # fmt: skip


@pytest.mark.parametrize(("row", "status", "reason"), REASONS)
def test_a_row_without_a_verdict_says_why(type_, row, status, reason):
    right = '{"gold": "7", "completion": "<SOLUTION>7</SOLUTION>"}'
    rows = f"{right}\n{row}".encode()
    grades = json.loads(type_(rows, "--json").stdout)["grades"]
    assert [(grade["strict"], grade["reason"]) for grade in grades] == [
        ("right", None), (status, reason),
    ]  # fmt: skip
    assert f"line 2, completion 0: {status}; {reason}" in type_(rows).output


@pytest.mark.parametrize("answer", [">", "2", "="])
def test_a_wrong_sign_is_wrong(type_, answer):
    row = json.dumps({"gold": "<", "completion": f"<SOLUTION>{answer}</SOLUTION>"})
    statuses = json.loads(type_(row.encode(), "--json").stdout)["statuses"]["strict"]
    assert statuses["wrong"] == 1


@pytest.mark.slow
def test_both_modes_show_where_they_differ(type_):
    done = type_(ROWS, "--mode", "both")
    lines = [line for line in done.output.splitlines() if "math-verify right" in line]
    assert lines == [
        "line 2, completion 0: strict wrong, math-verify right; gold '27', answer '0=27'"
    ]


@pytest.mark.slow
def test_answers_in_boxes_and_other_judges(type_):
    boxed = rb'{"gold": "27", "completion": "\\boxed{27}"}'
    assert (
        json.loads(type_(boxed, "--extract", "boxed", "--json").stdout)["statuses"]["strict"][
            "right"
        ]
        == 1
    )
    assert said(type_(boxed, "--json", "--extract", "tags-then-boxed")) == {"strict": ["right"]}
    assert said(type_(boxed, "--json", "--extract", "tags")) == {"strict": ["unparseable"]}
    plain = rb'{"gold": "27", "completion": "It is 27."}'
    searched = type_(plain, "--json", "--extract", "text", "--mode", "math-verify")
    assert said(searched) == {"math-verify": ["right"]}
    roles = rb'{"gold": "Ann is a knight.", "completion": "<SOLUTION>Ann: knight</SOLUTION>"}'
    done = type_(roles, "--judge", "roles", "--json")
    assert json.loads(done.stdout)["statuses"]["strict"]["right"] == 1


def said(done):
    """The status of the only completion, by mode."""
    statuses = json.loads(done.stdout)["statuses"]
    return {mode: [name for name, n in counts.items() if n] for mode, counts in statuses.items()}


@pytest.mark.parametrize(
    ("content", "words", "message"),
    [
        (None, (), "can't read"),
        (b"", (), "no row to grade"),
        (b"\xff\xfe\n", (), "line 1: not JSON"),
        (b'{"gold": "1", "completion": "1"}', ("--judge", "maths"), "unknown judge 'maths'"),
        (
            b'{"gold": "1", "completion": "1"}',
            ("--extract", "text"),
            "use grading.mode=math-verify",
        ),
        (
            b'{"question": "1", "gold": "1", "completion": "1", "correct": true}',
            ("--mode", "both"),
            "type --mode math-verify --extract text, or --extract tags-then-boxed",
        ),
    ],
)
def test_mistakes_are_panels(type_, content, words, message):
    done = type_(content, *words)
    assert done.exit_code == 2
    assert message in " ".join(re.findall(r"[^\s│╭╮╰╯─]+", done.output + done.stderr))
