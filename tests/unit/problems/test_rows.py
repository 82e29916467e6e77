"""Dotted paths, and the forms of files that other programs read."""

import json
import logging

import pytest

from sage_cli.errors import DataError
from sage_cli.problems.golds import after_hashes, before_unit, in_last_box, integer, is_plain_number
from sage_cli.problems.identity import problems_identity
from sage_cli.problems.load import load_problems, load_training_problems
from sage_cli.problems.row_files import as_text
from sage_cli.problems.values import column_value, has
from sage_cli.settings.data import DataSection, FieldsSection
from sage_cli.solution_text import each_gold

USER = {"role": "user", "content": "2+2=?"}
SYSTEM = {"role": "system", "content": "Be brief."}
ANSWER = {"role": "assistant", "content": "4"}
OTHER = {"role": "user", "content": "5+4=?"}


def written(folder, *rows):
    file = folder / "rows.jsonl"
    file.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return file


def test_a_path_reaches_into_objects_and_lists():
    row = {"a": {"b": [{"c": 1}, {"c": 2}]}, "a.b": "dotted", "one": ["x"]}
    assert column_value(row, "a.b.-1.c") == 2
    assert column_value(row, "a.b.0.c") == 1
    assert column_value(row, "a.b") == "dotted"
    assert column_value(row, "one") == "x"
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
def test_a_file_of_another_program_is_read_as_it_is(tmp_path, caplog, row, program):
    with caplog.at_level(logging.WARNING):
        (problem,) = load_problems(str(written(tmp_path, row)), DataSection())
    assert (problem.question, problem.gold) == ("2+2=?", "4")
    assert f"has the columns of {program}" in caplog.text
    assert not {"prompt", "messages"} & problem.meta.keys()


def test_named_columns_are_taken_as_they_are_named_or_named_as_absent(tmp_path):
    row = {"prompt": [OTHER, ANSWER, USER], "extra": {"right": "5"}, "answer": "4"}
    fields = FieldsSection(question="prompt.0.content", gold="extra.right")
    (problem,) = load_problems(str(written(tmp_path, row)), DataSection(), fields)
    assert (problem.question, problem.gold) == ("5+4=?", "5")
    fields = FieldsSection(question="prompt.-1.text", gold="answer")
    row = {"prompt": [USER], "answer": "4"}
    with pytest.raises(DataError, match=r"no column 'prompt.-1.text'"):
        load_problems(str(written(tmp_path, row)), DataSection(), fields)


def parts(*texts, **other):
    """A user's turn in parts of type text, and perhaps one of another type."""
    content = [{"type": "text", "text": text} for text in texts]
    return {"role": "user", "content": [*content, *([other] if other else [])]}


def shared_gpt(*turns):
    """The turns in the form of ShareGPT."""
    names = {"user": "human", "assistant": "gpt"}
    return [
        {"from": names.get(turn["role"], turn["role"]), "value": turn["content"]} for turn in turns
    ]


BOTH = [("2+2=?", "4"), ("5+4=?", "9")]


@pytest.mark.parametrize(
    ("rows", "problems"),
    [
        # chat turns: the user's last one in each row, wherever it stands
        (
            [
                {"messages": [SYSTEM, USER, ANSWER], "ground_truth": "4"},
                {"messages": [SYSTEM, OTHER], "ground_truth": "9"},
            ],
            BOTH,
        ),
        (
            [
                {"messages": [SYSTEM, USER], "ground_truth": "4"},
                {"messages": [SYSTEM, OTHER, ANSWER], "ground_truth": "9"},
            ],
            BOTH,
        ),
        ([{"prompt": "2+2=?", "answer": 4}, {"prompt": [OTHER], "answer": 9}], BOTH),
        ([{"prompt": "2+2=?", "answer": 4}, {"messages": [OTHER], "answer": 9}], BOTH),
        ([{"prompt": [parts("2+2", "=?")], "solution": "4"}], BOTH[:1]),
        (
            [
                {"prompt": shared_gpt(SYSTEM, USER, ANSWER), "answer": "4"},
                {"prompt": [OTHER], "answer": "9"},
            ],
            BOTH,
        ),
        # a worked solution beside the answer, in whichever order
        ([{"prompt": "2+2=?", "solution": r"So \boxed{4}.", "answer": "4"}], BOTH[:1]),
        ([{"prompt": "2+2=?", "answer": None, "solution": "4"}], BOTH[:1]),
        ([{"prompt": "2+2=?", "answer": float("nan"), "solution": "4"}], BOTH[:1]),
        # texts, numbers, booleans
        ([{"question": "q", "gold": True}], [("q", "True")]),
        ([{"question": "q", "gold": 2.5}], [("q", "2.5")]),
    ],
)
def test_each_row_is_read_by_its_own_form(tmp_path, rows, problems):
    loaded = load_problems(str(written(tmp_path, *rows)), DataSection())
    assert [(problem.question, problem.gold) for problem in loaded] == problems


@pytest.mark.parametrize(
    ("row", "complaint"),
    [
        ({"question": "q", "gold": ["7", "seven"]}, "line 2: gold is the list ['7', 'seven']"),
        ({"question": "q", "gold": {"value": 7}}, "line 2: gold is the dict {'value': 7}"),
        ({"question": "q", "gold": [{"value": 7}]}, "gold is the dict"),
        ({"question": "q", "gold": [{"type": "image", "text": "7"}]}, "gold is the dict"),
        ({"question": "q", "gold": float("nan")}, "line 2 has no reference answer"),
        ({"question": "q", "gold": float("inf")}, "line 2 has no reference answer"),
        ({"question": "q", "gold": []}, "gold is the list []"),
        ({"question": ["a", "b"], "gold": "7"}, "line 2: question is the list ['a', 'b']"),
        ({"question": {"text": "a"}, "gold": "7"}, "question is the dict {'text': 'a'}"),
        ({"question": str([SYSTEM, USER]), "gold": "7"}, "contains chat turns that are"),
        ({"question": json.dumps([USER]), "gold": "7"}, "contains chat turns that are"),
        ({"question": json.dumps(shared_gpt(USER)), "gold": "7"}, "contains chat turns that are"),
        ({"question": [SYSTEM, ANSWER], "gold": "7"}, "question contains no turn of the user"),
        ({"question": shared_gpt(SYSTEM, ANSWER), "gold": "7"}, "question contains no turn of"),
        (
            {"question": [parts("What?", type="image_url", image_url="x")], "gold": "7"},
            "line 2: question.-1.content is the list",
        ),
    ],
)
def test_what_is_no_text_is_named_by_line_and_path(tmp_path, row, complaint):
    file = written(tmp_path, {"question": "1+1=?", "gold": "2"}, row)
    with pytest.raises(DataError) as refused:
        load_problems(str(file), DataSection())
    assert complaint in refused.value.cause


def test_a_list_of_parts_that_say_where_they_are_from_is_no_chat(tmp_path):
    row = {"parts": [{"from": "wiki", "value": "1+1=?"}], "gold": "2"}
    fields = FieldsSection(question="parts.0.value")
    (problem,) = load_problems(str(written(tmp_path, row)), DataSection(), fields)
    assert problem.question == "1+1=?"


def test_the_path_to_type_stands_beside_the_complaint(tmp_path):
    for gold, path in ((["7", "seven"], "gold.0"), ({"value": 7}, "gold.value")):
        file = written(tmp_path, {"question": "q", "gold": gold})
        with pytest.raises(DataError) as refused:
            load_problems(str(file), DataSection())
        assert path in (refused.value.next_step or "")
        (problem,) = load_problems(str(file), DataSection(), FieldsSection(gold=path))
        assert problem.gold == "7"


@pytest.mark.parametrize(
    "path", ["prompt.0.content", "prompt.-1.content", "prompt.0.value", "prompt.-1.value"]
)
def test_a_turn_of_another_role_is_never_the_question(tmp_path, path):
    turns = [SYSTEM, USER, ANSWER]
    turns = shared_gpt(*turns) if path.endswith("value") else turns
    file = written(tmp_path, {"prompt": turns, "gold": "4"})
    with pytest.raises(DataError, match=f"{path} contains no turn of the user"):
        load_problems(str(file), DataSection(), FieldsSection(question=path))
    (problem,) = load_problems(str(file), DataSection(), FieldsSection(question="prompt"))
    assert problem.question == "2+2=?"


def test_turns_left_out_and_questions_with_two_golds_are_said(tmp_path, caplog):
    rows = ({"prompt": [SYSTEM, USER], "answer": "4"}, {"prompt": [OTHER], "answer": "9"})
    load_problems(str(written(tmp_path, *rows)), DataSection())
    assert "left out of the question: system in 1 of 2 rows" in caplog.text
    assert "the question is prompt.-1.content, the gold answer" in caplog.text
    rows = ({"question": "2+2=?", "gold": "4"}, {"question": "2+2=?\n", "gold": "5"})
    data = DataSection.model_validate({"rl": {"name": str(written(tmp_path, *rows))}})
    assert len(load_training_problems(data)) == 2
    assert "a question with two reference answers" in caplog.text


@pytest.mark.parametrize(
    ("columns", "question", "gold"),
    [
        (["problem", "remark"], "problem", "remark"),
        (["id", "ground_truth"], "id", "ground_truth"),
        (["a", "b"], "a", "b"),
        (["a"], "a", "COLUMN"),
    ],
)
def test_the_columns_to_name_are_those_that_usually_hold_them(tmp_path, columns, question, gold):
    file = written(tmp_path, dict.fromkeys(columns, "x"))
    with pytest.raises(DataError) as refused:
        load_problems(str(file), DataSection())
    assert "did you mean" not in refused.value.cause
    assert f"fields.question={question} --set" in str(refused.value.next_step)
    assert f"fields.gold={gold};" in str(refused.value.next_step)


AT_THE_END = {"messages": [USER], "answer": "4"}


@pytest.mark.parametrize(
    ("rows", "questions", "gold"),
    [
        ([{"question": "q", "gold": "4"}], [["question"]], "gold"),
        ([{"prompt": [USER], "answer": "4"}], [["prompt.-1.content"]], "answer"),
        ([AT_THE_END], [["messages.-1.content"]], "answer"),
        (
            [AT_THE_END, {"messages": [USER, ANSWER], "answer": "4"}],
            [["messages.-1.content"], ["messages.-2.content"]],
            "answer",
        ),
        (
            [{"messages": [parts("2+2=?")], "answer": "4"}],
            [["messages.-1.content.*.text"]],
            "answer",
        ),
    ],
)
def test_where_questions_stand_is_part_of_the_identity(tmp_path, rows, questions, gold):
    """A run of before must not be taken for one on rows that are read otherwise now."""
    file = written(tmp_path, *rows)
    (known,) = problems_identity(str(file), DataSection())["problems"][0]
    assert known["columns"] == ["rows.jsonl", questions, [[gold, "whole"]], None]


def test_any_of_several_golds_is_right_where_the_user_says_so(tmp_path):
    rows = [{"question": q, "gold": g} for q, g in (("a", ["7", "\\frac{14}{2}, 7"]), ("b", ["9"]))]
    rows += [{"question": "c", "gold": "9"}]
    file, fields = str(written(tmp_path, *rows)), FieldsSection(any_of=True)
    several, single, plain = load_problems(file, DataSection(), fields)
    assert several.golds == ("7", "\\frac{14}{2}, 7")
    assert (single.gold, plain.gold) == ("9", "9")
    alone = problems_identity(file, DataSection())["problems"]
    assert problems_identity(file, DataSection(), fields)["problems"] != alone
    for bad in (["7", None], [], [["7", "8"]]):
        with pytest.raises(DataError, match="line 1"):
            load_problems(
                str(written(tmp_path, {"question": "a", "gold": bad})), DataSection(), fields
            )


@pytest.mark.parametrize(
    "text", ["any of", "any of [7]", "any of [", 'any of {"a": "b"}', "any of []"]
)
def test_a_gold_that_only_begins_so_is_itself(text):
    assert each_gold(text) == (text,)


def test_a_json_array_is_read_and_so_are_lines(tmp_path):
    rows = [{"question": "2+2=?", "gold": "4"}, {"question": "5+4=?", "gold": 9}]
    file = tmp_path / "rows.json"
    for text in (json.dumps(rows, indent=1), "\n".join(map(json.dumps, rows))):
        file.write_text(text)
        assert [problem.gold for problem in load_problems(str(file), DataSection())] == ["4", "9"]
    for text, complaint in (
        (json.dumps([rows[0], 3]), "row 2, is a JSON int, not an object"),
        ("[{", "isn't JSON"),
        (json.dumps([rows[0], {"question": "q"}]), "row 2 has no column 'gold'"),
    ):
        file.write_text(text)
        with pytest.raises(DataError) as refused:
            load_problems(str(file), DataSection())
        assert complaint in refused.value.cause


@pytest.mark.parametrize(
    ("read", "text", "gold"),
    [
        *(
            (as_text, *case)
            for case in (
                (27.0, "27"),
                (-1.0, "-1"),
                (0.26, "0.26"),
                (7, "7"),
                (" a ", "a"),
                (None, ""),
            )
        ),
        (in_last_box, r"\boxed{ }", None),
        (in_last_box, r"\boxed{ 3 }", "3"),
        (in_last_box, r"so \boxed {3} or \fbox{4}", "4"),
        (in_last_box, "no box", None),
        *(
            (after_hashes, *case)
            for case in (
                ("3*4=12\n#### 12", "12"),
                ("#### 1\n#### 2,125", "2125"),
                ("12", None),
                ("####", None),
            )
        ),
        # leading zeros go, and units in parentheses
        *((integer, *case) for case in (("033", "33"), ("-007", "-7"), ("p", "p"), ("", None))),
        *(
            (before_unit, *case)
            for case in (("9 (apples)", "9"), ("6:7", "6:7"), ("5 (left) (over)", "5 (left)"))
        ),
        *((is_plain_number, text, True) for text in ("12", "-0.5", "1e5", " 7 ")),
        *(
            (is_plain_number, text, False)
            for text in ("", "nan", "inf", r"\frac{1}{2}", "1_000", "3 m")
        ),
    ],
)
def test_columns_are_read_as(read, text, gold):
    assert read(text) == gold
