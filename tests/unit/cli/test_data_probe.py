"""`sage data probe`: a benchmark that half was learnt by heart, and the same with fresh numbers."""

import json
from pathlib import Path

import pytest
import torch
from random_model import random_model
from scripted import Scripted

from sage_cli.evaluation import policy_sampler
from sage_cli.evaluation.probe import continues, cut, with_fresh_numbers
from sage_cli.models.tokenizer import character_tokenizer
from sage_cli.problems.problem import Problem

QUESTIONS = [
    "Ann has 12 apples for her two sisters, and Bob takes 5 of them. How many are left?",
    "A train of 31 wagons goes through a long tunnel and loses 14 in it. How long is it?",
    "Of 48 eggs a baker breaks some before noon, namely 29; count the whole ones.",
    "Tickets cost 17 crowns, and Per pays for his with a note of 50. What does he get?",
    "In a choir of 64 voices that sings by the grey sea there are 23 low ones; find the others.",
    "The well is 75 feet deep and its rope is too short by 38 feet. How long is the rope?",
    "Six boxes hold 96 pens in all; on Monday morning 52 go. Which number is for Tuesday?",
    "From 83 pages Ole has by the light of a candle read 44. What keeps him awake?",
]
WORDY = "Name the smallest prime number that is even, and write it down as one digit."
GOLDS = ["7", "17", "19", "33", "41", "37", "44", "39"]
BY_HEART = QUESTIONS[:4]


@pytest.mark.parametrize(
    ("question", "begin"),
    [
        # 60 % of 20 characters are 12: "three four" would end behind them
        ("one two three  fours", "one two"),
        ("one two three fours ", "one two"),  # 19 characters: 11.4
        ("aaaaaa bbb", "aaaaaa"),  # just at the blank
        ("12345678+9", "123456"),  # no blank: within a word
        ("a bcdefghi", "a bcde"),  # a blank far before 60 % doesn't shorten it
        ("x", "x"),
    ],
)
def test_the_beginning_of_a_question(question, begin):
    first, rest = cut(question)
    assert (first, first + rest) == (begin, question.strip())


@pytest.mark.parametrize(
    ("text", "rest", "is_continued"),
    [
        (" of 5 pens?\nIt is 5", " of 5 pens?", True),
        ("of  5\npens? It", " of 5 pens?", True),  # blanks count as one
        (" of 5 pens?It", " of 5 pens?", True),
        (" of 5 Pens?", " of 5 pens?", False),
        (" of 5 pen", " of 5 pens?", False),
        (" of 52", " of 5", False),  # another number
        (" so of 5 pens?", " of 5 pens?", False),
        ("+9=?", "+9=?", True),
        ("anything", "", False),  # of a question of one character nothing is left
    ],
)
def test_what_continues_a_question_word_for_word(text, rest, is_continued):
    assert continues(text, rest) == is_continued


def test_fresh_numbers_are_others_of_equal_length():
    problem = Problem("p", "b", "12 of 210 and 12 of 0.5", "1")
    fresh = with_fresh_numbers(problem).question
    assert fresh == with_fresh_numbers(problem).question
    pairs = [(a, b) for a, b in zip(problem.question, fresh, strict=True) if a in "123456789"]
    assert all(a != b and b in "123456789" for a, b in pairs)
    assert [c for c in fresh if c not in "123456789"] == [*" of 0 and  of 0."]
    assert fresh[:2] == fresh[14:16]  # a number that returns is one number


class HalfByHeart(Scripted):
    """A sampler that has learnt half of the questions with their answers, and rambles else."""

    prompts: list[str] = []  # noqa: RUF012

    def __init__(self, setup):
        super().__init__()
        assert (setup.parameters.temperature, setup.prompt.format) == (0, "plain")

    def text(self, request, index):
        self.prompts.append(request.prompt)
        texts = [
            rf"{question[len(request.prompt) :]} It is \boxed{{{gold}}}."
            for question, gold in zip(BY_HEART, GOLDS, strict=False)
            if question.startswith(request.prompt)
        ]
        return (texts or [" and so on. It is 1000."])[0]


@pytest.fixture
def file(sage):
    """The benchmark, in the folder of the commands, and a folder that looks like a model."""
    rows = zip([*QUESTIONS, WORDY], [*GOLDS, "2"], strict=True)
    lines = [json.dumps({"question": question, "gold": gold}) for question, gold in rows]
    Path("mine.jsonl").write_text("\n".join(lines))
    Path("model").mkdir()
    Path("model/config.json").write_text("{}")
    Path("model/tokenizer_config.json").write_text('{"eos_token": "<|end|>"}')
    # a header of two bytes, without tensors
    Path("model/model.safetensors").write_bytes(b"\2" + bytes(7) + b"{}")
    return "mine.jsonl"


PROBE = ("data", "probe", "model", "mine.jsonl", "--preset", "tiny")


def test_the_half_that_was_learnt_is_found(sage, answer, file, monkeypatch):
    HalfByHeart.prompts.clear()
    monkeypatch.setattr(policy_sampler, "build_sampler", HalfByHeart)
    found = answer(*PROBE)
    printed, fresh, difference = found["rows"]
    # four of nine questions; of the eight with numbers in both parts four
    assert (printed["n"], printed["word for word"]) == (9, 4 / 9)
    assert (printed["right unasked"], printed["word for word low"] < 4 / 9) == (4 / 9, True)
    assert (fresh["n"], fresh["word for word"], fresh["right unasked"]) == (8, 0, 0)
    assert [difference[name] for name in ("n", "word for word", "right unasked")] == [8, 0.5, 0.5]
    assert len(found["reproduced"]) == 4
    assert len(HalfByHeart.prompts) == 17
    assert cut(QUESTIONS[5])[0] in HalfByHeart.prompts  # as it stands, without a template
    shown = sage(*PROBE)
    assert "left out of the fresh numbers: 1, of 9" in shown.words
    assert len(HalfByHeart.prompts) == 17  # stored
    Path("mine.yaml").write_text("title: mine\nmethods: {base: base}\n")
    sets = (
        "model.kind=pretrained",
        "model.path=model",
        "sft.enabled=false",
        "evaluation.benchmark=mine.jsonl",
    )
    typed = [word for setting in sets for word in ("--set", setting)]
    (chapter,) = answer("suite", "report", "mine.yaml", "--preset", "tiny", *typed)["chapters"]
    assert chapter["sections"]["probe"]["probes"] == found["rows"]
    Path("words.jsonl").write_text(json.dumps({"question": WORDY, "gold": "2"}))
    (row,) = answer(*PROBE[:3], "words.jsonl", *PROBE[4:])["rows"]
    assert (row["questions"], row["n"], row["word for word"]) == ("as printed", 1, 0)
    limited = answer(*PROBE, "--limit", "4")
    assert [row["word for word"] for row in limited["rows"]] == [1, 0, 1]


@pytest.mark.parametrize(
    ("setting", "cause", "next_step"),
    [
        ("sampling.server_form=chat", "sampling.server_form has no effect", "completions"),
        ("sampling.temperature=1", "sampling.temperature has no effect: a probe", "leave"),
        ("prompt.format=chat", "prompt.format has no effect: a probe", "leave"),
    ],
)
def test_what_is_no_probe_is_a_panel(sage, file, setting, cause, next_step):
    sage(*PROBE, "--set", setting).refused(cause, next_step)


@pytest.mark.slow
def test_a_model_that_learnt_half_by_heart(answer, file):
    """It reads its prompts as they stand; fresh numbers in them break what it knows."""
    tokenizer = character_tokenizer([])
    tokenizer.padding_side = "right"
    model = random_model(tokenizer, std=None, hidden_size=64, intermediate_size=128)
    texts = [f"{q} It is {g}.{tokenizer.eos_token}" for q, g in zip(BY_HEART, GOLDS, strict=False)]
    batch = tokenizer(texts, padding=True, add_special_tokens=False, return_tensors="pt")
    labels = batch["input_ids"].masked_fill(batch["attention_mask"] == 0, -100)
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)
    for _ in range(200):
        optimizer.zero_grad()
        model(**batch, labels=labels).loss.backward()
        optimizer.step()
    model.save_pretrained("model")
    tokenizer.save_pretrained("model")
    printed, fresh, _ = answer(*PROBE, "--set", "sampling.max_tokens=60")["rows"]
    assert (printed["word for word"], printed["right unasked"]) == (4 / 9, 4 / 9)
    assert fresh["word for word"] == 0
