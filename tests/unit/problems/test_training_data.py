"""Demonstrations and RL problems as the configuration names them."""

import json

import pytest

from sage_cli.errors import ConfigurationError, DataError
from sage_cli.problems.load import load_demonstrations, load_problems, load_training_problems
from sage_cli.settings.sections.data import DataSection
from sage_cli.settings.sections.training import SftSection


def data(folder=None, sft=None, rl=None):
    named = {"sft": sft or {"name": "arithmetic"}, "rl": rl or {"name": "arithmetic"}}
    return DataSection(root=folder, **named)


def demonstrations(data, length=None, **sft):
    return load_demonstrations(data, SftSection(**sft), length)


def openmath(folder):
    rows = [
        ("Q1?", "3", "<think>\nSo 3.\n</think>"),
        ("Q2?", r"\frac{1}{2}", "half"),
        ("Q3 and quite a long one?", "0.5", "half"),
        ("Q4?", "1e3", "a thousand"),
        ("Q1?", "3", "<think>Again 3.</think>"),
    ]
    path = folder / "train/openmathreasoning_mini_sample.jsonl"
    path.parent.mkdir()
    columns = ("problem", "expected_answer", "generated_solution")
    path.write_text(
        "".join(json.dumps(dict(zip(columns, row, strict=True))) + "\n" for row in rows)
    )
    return folder


OPENMATH = {"name": "openmathreasoning-mini", "numeric_only": True, "max_prompt_share": 0.5}


def test_numeric_answers_only_without_thinking_tags(tmp_path):
    made = demonstrations(data(openmath(tmp_path), sft=OPENMATH))
    assert [(d.question, d.working, d.answer, d.loss) for d in made] == [
        ("Q1?", "So 3.", "3", "completion"),
        ("Q3 and quite a long one?", "half", "0.5", "completion"),
        ("Q4?", "a thousand", "1e3", "completion"),
        ("Q1?", "Again 3.", "3", "completion"),
    ]


def test_long_questions_are_left_out_when_tokens_can_be_counted(tmp_path):
    # half of 16 tokens, a character counting as one: only the question of 24 is too long
    named = data(openmath(tmp_path), sft=OPENMATH)
    made = demonstrations(named, lambda shown: len(shown.question), max_length=16)
    assert [d.question for d in made] == ["Q1?", "Q4?", "Q1?"]
    assert len(demonstrations(named, max_length=16)) == 4


def test_the_limit_counts_what_is_kept(tmp_path):
    named = data(openmath(tmp_path), sft=OPENMATH | {"limit": 2})
    assert [d.answer for d in demonstrations(named)] == ["3", "0.5"]


def test_nothing_left_is_an_error(tmp_path):
    named = data(openmath(tmp_path), sft=OPENMATH)
    with pytest.raises(ConfigurationError, match="no demonstration"):
        demonstrations(named, lambda shown: 100, max_length=8)


def test_arithmetic_demonstrations_are_as_many_as_the_steps_take():
    made = demonstrations(data(), steps=7, batch_size=4)
    assert len(made) == 28
    assert made == demonstrations(data(sft={"name": "arithmetic-train"}), steps=7, batch_size=4)
    assert len(demonstrations(data(sft={"name": "arithmetic", "limit": 5}), steps=7)) == 5
    with pytest.raises(ConfigurationError, match=r"neither sft\.steps nor data\.sft\.limit"):
        demonstrations(data())


def test_a_source_without_worked_solutions_is_refused(tmp_path):
    path = tmp_path / "mine.jsonl"
    path.write_text('{"question": "q", "gold": "1", "steps": "w"}\n')
    with pytest.raises(DataError, match="no worked solutions"):
        demonstrations(data(sft={"name": "gsm8k"}))
    fields = {"question": "question", "gold": "gold", "working": "step"}
    with pytest.raises(DataError, match="did you mean 'steps'"):
        demonstrations(data(sft={"name": str(path), "fields": fields}))
    fields["working"] = "steps"
    [made] = demonstrations(data(sft={"name": str(path), "fields": fields}))
    assert (made.question, made.working, made.answer) == ("q", "w", "1")
    for name in ("kk-generated", "arithmetic-dev"):
        with pytest.raises(DataError, match=f"{name} has no worked solutions"):
            demonstrations(data(sft={"name": name}))


def test_pairs_of_question_and_answer_are_learnt_and_that_is_said(tmp_path, caplog):
    path = tmp_path / "pairs.jsonl"
    path.write_text('{"question": "q", "gold": ["1", "one"], "steps": "w"}\n')
    [made] = demonstrations(data(sft={"name": str(path), "fields": {"any_of": True}}))
    assert (made.question, made.working, made.answer, made.text) == ("q", None, "1", "q\n1")
    assert "SFT learns golds alone" in caplog.text


def test_a_demonstration_without_working_is_named(tmp_path):
    path = tmp_path / "mine.jsonl"
    path.write_text('{"question": "q", "gold": "1", "w": ""}\n')
    fields = {"question": "question", "gold": "gold", "working": "w"}
    with pytest.raises(DataError, match="line 1 has no worked solution"):
        demonstrations(data(sft={"name": str(path), "fields": fields}))


def test_rl_problems_of_arithmetic_are_not_the_held_out_ones():
    problems = load_training_problems(data())
    assert len(problems) == 7329
    test = {p.question for p in load_problems("arithmetic,arithmetic-dev", DataSection())}
    assert len(test) == 300
    assert not test & {p.question for p in problems}


def test_rl_problems_are_kept_once_filtered_and_cut(tmp_path):
    rl = {"name": "openmathreasoning-mini"}
    folder = openmath(tmp_path)
    golds = [p.gold for p in load_training_problems(data(folder, rl=rl))]
    assert golds == ["3", r"\frac{1}{2}", "0.5", "1e3"]
    numbers = rl | {"numeric_only": True, "limit": 2}
    assert [p.gold for p in load_training_problems(data(folder, rl=numbers))] == ["3", "0.5"]


def test_real_demonstrations_load(shared):
    made = demonstrations(data(shared / "data", sft=OPENMATH))
    assert len(made) == 245
    assert not any("think>" in d.working for d in made)
