"""Which demonstrations `sage sft` keeps, and what it is told before anything is loaded."""

import json
import os
import re
import threading

import pytest
from random_model import save_scratch

from sage_cli.config.load import load
from sage_cli.errors import BusyError, ConfigurationError, StoreError
from sage_cli.models.planned import sft_run
from sage_cli.progress import Silent
from sage_cli.store.locks import writer
from sage_cli.store.run import Runs
from sage_cli.training import hardware, sft
from sage_cli.training.run import InitialPolicy, SftTraining

SMALL = ["model.hidden=16", "model.layers=1", "model.heads=2", "model.feed_forward=32"]


@pytest.fixture
def folder(tmp_path):
    """A model with a tokenizer of characters."""
    config = load(sets=SMALL).config
    save_scratch(config.model, config.prompt.tags, [], tmp_path / "model")
    return tmp_path / "model"


@pytest.fixture
def rows(tmp_path):
    """Two short questions, one of them with a long solution."""
    path = tmp_path / "rows.jsonl"
    worked = [("1+1=?", "2", "one more than 1"), ("2+2=?", "4", "x" * 200)]
    names = ("question", "gold", "working")
    lines = [json.dumps(dict(zip(names, row, strict=True))) for row in worked]
    path.write_text("\n".join(lines))
    return path


def config(folder, rows, *sets):
    return load(
        sets=[
            "model.kind=pretrained",
            f"model.path={folder}",
            "model.tuning=full",
            f"data.sft.name={rows}",
            "data.sft.fields.working=working",
            "data.sft.max_prompt_share=0.5",
            "sft.max_length=300",
            "sft.steps=2",
            "tracking.wandb=off",
            f"run.root={folder.parent}/runs",
            "prompt.system=null",
            *sets,
        ]
    ).config


def test_a_run_that_began_with_another_prompt_is_not_resumed(tmp_path):
    training = SftTraining.of(load().config)
    run = Runs(tmp_path).at("sft", "toy", "1" * 64)
    origin = {"kind": "sft", "parent": None, "seed": 0, "template": "of before"}

    with pytest.raises(KeyboardInterrupt), training.recorded(run, origin, Silent()):
        raise KeyboardInterrupt
    other = {**origin, "template": "of now"}
    with (
        pytest.raises(StoreError, match="was started with prompt template of before") as refused,
        training.recorded(run, other, Silent()),
    ):
        pytest.fail("the training began")
    assert "--fresh" in refused.value.next_step


def test_the_length_that_counts_is_the_questions_or_the_conversations(folder, rows):
    def kept(*sets):
        _, _, examples = sft.sft_inputs(config(folder, rows, *sets))
        return [re.findall("<SOLUTION>(.*)</SOLUTION>", one.completion)[0] for one in examples]

    # half of 300 tokens, a character (or tag) counting as one: questions have 5, the first
    # conversation about 30, the second more than 200
    assert kept() == ["2", "4"]
    measured = "data.sft.measured=conversation"
    assert kept(measured) == ["2"]
    # a share of 1 measures nothing
    assert kept(measured, "data.sft.max_prompt_share=1", "sft.max_length=8") == ["2", "4"]
    # plain prompt of 5 + <start> working of 15 <end> <SOLUTION> 2 </SOLUTION> + end: 26 tokens
    assert kept(measured, "sft.max_length=52") == ["2"]
    with pytest.raises(ConfigurationError, match="no demonstration"):
        kept(measured, "sft.max_length=50")


@pytest.mark.parametrize(("setting", "loss"), [(None, "completion"), ("text", "text")])
def test_what_the_loss_covers_is_a_setting(folder, rows, setting, loss):
    sets = [f"sft.loss={setting}"] if setting else []
    _, _, examples = sft.sft_inputs(config(folder, rows, *sets))
    assert [example.loss for example in examples] == [loss, loss]


def test_what_cannot_be_trained_is_refused_before_anything_is_written(
    folder, rows, monkeypatch, tmp_path
):
    with pytest.raises(ConfigurationError, match=r"sft\.enabled is false"):
        SftTraining.of(config(folder, rows, "sft.enabled=false"))
    monkeypatch.setattr(hardware, "find_spec", lambda _: None)
    eight_bit = SftTraining.of(config(folder, rows, "sft.optimizer=adamw_8bit"))
    with pytest.raises(ConfigurationError, match="needs the package bitsandbytes"):
        eight_bit.execute(Silent())
    assert not (tmp_path / "runs").exists()


@pytest.fixture
def base(tmp_path):
    """Settings, their base, and what finishes it."""
    sets = ["sft.shipped=false", "tracking.wandb=off", f"run.root={tmp_path}/runs"]
    settings = load(sets=sets).config
    run = sft_run(settings, Runs(settings.run.root))

    def finish():
        run.model.mkdir(parents=True)
        (run.model / "model.safetensors").write_text("weights")
        run.note(status="finished", kind="sft", id=run.id)
        return run

    return settings, run, finish


class Hears(Silent):
    """Lets go of what holds the run that is waited for, once it is said."""

    def __init__(self, let_go):
        self.let_go, self.lines = let_go, []

    def say(self, text):
        self.lines.append(text)
        if text.startswith("waiting for"):
            self.let_go()


@pytest.mark.parametrize("ends", ["finished", "killed"])
def test_a_base_that_another_process_trains_is_waited_for(base, monkeypatch, ends):
    settings, run, finish = base
    held, may_end = threading.Event(), threading.Event()

    def other():
        with writer(run.folder):
            held.set()
            may_end.wait(60)
            if ends == "finished":
                finish()

    taken_over = []
    monkeypatch.setattr(SftTraining, "execute", lambda *_: taken_over.append(1) or finish())
    thread = threading.Thread(target=other)
    thread.start()
    assert held.wait(60)
    hears = Hears(may_end.set)
    assert InitialPolicy(settings).ensure_trained(hears).run == run
    thread.join()
    assert hears.lines[0].startswith(f"waiting for {run.id}, which process {os.getpid()} on ")
    assert len(taken_over) == (ends == "killed")


def test_a_base_whose_lock_another_process_took_first_is_waited_for_too(base, monkeypatch):
    settings, run, finish = base

    def beaten(*_):
        finish()
        raise BusyError("it is being written by another process")

    monkeypatch.setattr(SftTraining, "execute", beaten)
    assert InitialPolicy(settings).ensure_trained(Silent()).run == run
