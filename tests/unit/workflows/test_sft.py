"""Which demonstrations `sage sft` keeps, and what it is told before anything is loaded."""

import json
from typing import Any

import pytest

from sage_cli.config.load import load
from sage_cli.config.recipe import SftRecipe
from sage_cli.errors import ConfigurationError
from sage_cli.models.load import load_tokenizer
from sage_cli.models.scratch import save_scratch
from sage_cli.progress import Silent
from sage_cli.training import optimizers
from sage_cli.training import sft as trainer
from sage_cli.workflows import sft as workflow

SMALL = ["model.hidden=16", "model.layers=1", "model.heads=2", "model.feed_forward=32"]


@pytest.fixture
def folder(tmp_path):
    """A model with a tokenizer of characters."""
    config = load(sets=SMALL).config
    save_scratch(config.model, workflow.tags(config.prompt), [], tmp_path / "model")
    return tmp_path / "model"


@pytest.fixture
def rows(tmp_path):
    """Two short questions, one of them with a long solution."""
    path = tmp_path / "rows.jsonl"
    worked = [("1+1=?", "2", "one more than 1"), ("2+2=?", "4", "x" * 200)]
    names = ("question", "gold", "working")
    path.write_text(
        "".join(json.dumps(dict(zip(names, row, strict=True))) + "\n" for row in worked)
    )
    return path


def config(folder, rows, *sets):
    return load(
        sets=[
            "model.kind=pretrained", f"model.path={folder}", "model.tuning=full",
            f"data.sft.name={rows}", "data.sft.fields.working=working",
            "data.sft.max_prompt_share=0.5", "sft.max_length=300", "sft.steps=2",
            "tracking.wandb=off", f"run.root={folder.parent}/runs", "prompt.system=null", *sets,
        ]
    ).config  # fmt: skip


def test_the_length_that_counts_is_the_questions_or_the_conversations(folder, rows):
    tokenizer = load_tokenizer(folder)

    def kept(*sets):
        recipe = SftRecipe.of(config(folder, rows, *sets))
        return [shown.answer for shown in workflow._demonstrations(recipe, tokenizer)]

    # half of 300 tokens, a character (or tag) counting as one: questions have 5, the first
    # conversation about 30, the second more than 200
    assert kept() == ["2", "4"]
    assert kept("data.sft.measured=conversation") == ["2"]
    # plain prompt of 5 + <start> working of 15 <end> <SOLUTION> 2 </SOLUTION> + end: 26 tokens
    exactly = ["data.sft.measured=conversation", "data.sft.max_prompt_share=1", "sft.max_length=8"]
    assert kept(*exactly) == ["2", "4"]  # a share of 1 measures nothing
    for length, left in ((52, ["2"]), (50, None)):
        sets = ["data.sft.measured=conversation", f"sft.max_length={length}"]
        if left is None:
            with pytest.raises(ConfigurationError, match="no demonstration"):
                kept(*sets)
        else:
            assert kept(*sets) == left


@pytest.mark.parametrize(("setting", "loss"), [(None, "completion"), ("text", "text")])
def test_what_the_loss_covers_is_a_setting(folder, rows, monkeypatch, setting, loss):
    seen: list[Any] = []
    monkeypatch.setattr(trainer, "train_sft", lambda *arguments: seen.extend(arguments[3]))
    monkeypatch.setattr(workflow, "note_weights", lambda run: None)
    sets = ["sft.optimizer=adamw", *([f"sft.loss={setting}"] if setting else [])]
    workflow.sft(config(folder, rows, *sets), Silent())
    assert [example.loss for example in seen] == [loss, loss]


def test_an_optimiser_that_cannot_run_is_refused_before_anything_is_written(
    folder, rows, monkeypatch, tmp_path
):
    monkeypatch.setattr(optimizers, "find_spec", lambda _: None)
    monkeypatch.setattr(workflow, "_train", lambda *_: pytest.fail("the training began"))
    with pytest.raises(ConfigurationError, match="needs the package bitsandbytes"):
        workflow.sft(config(folder, rows, "sft.optimizer=adamw_8bit"), Silent())
    assert not (tmp_path / "runs").exists()
