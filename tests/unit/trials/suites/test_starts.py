"""Suites with several initial policies: their replicates, seeds and tasks."""

from __future__ import annotations

from pathlib import Path

import pytest

from sage_cli.config.load import load
from sage_cli.errors import ConfigurationError, DataError
from sage_cli.trials.cost import cost_of
from sage_cli.trials.suites.overrides import Overrides
from sage_cli.trials.suites.planned import PlannedSuite, planned
from sage_cli.trials.suites.starts import parse_starts, starts

MINE = """
title: mine
settings: {rl.steps: 40, rl.save_every: 10, rl.keep_checkpoints: null}
methods: {base: base, kl: grpo, branch: grpo/branch}
initial_policies: [41, 42]
seeds: 2
measured: exact
temperatures: [0.9, 1.1]
checkpoints: true
k: 1,256
trades: [{name: t, method: branch, against: kl}]
"""


def plan(folder: Path, text: str = MINE, **overrides: object) -> PlannedSuite:
    file = folder / "mine.yaml"
    file.write_text(text)
    typed = {"presets": ("tiny",), "flags": {"run": {"root": folder / "runs"}}, **overrides}
    return planned(str(file), Overrides(**typed))  # type: ignore[arg-type]


def test_a_replicate_is_an_initial_policy_and_a_seed(tmp_path: Path) -> None:
    base, kl, branch = plan(tmp_path).parts[0].trials
    assert [(one.start, one.seed) for one in base.replicates] == [("41", 0), ("42", 0)]
    assert [(one.start, one.seed) for one in kl.replicates] == [
        ("41", 0), ("41", 1), ("42", 0), ("42", 1)
    ]  # fmt: skip
    first, second, third, _ = kl.replicates
    assert third.title == "kl, initial policy 42, seed 1"
    assert [one.config.data.arithmetic.seed for one in kl.replicates] == [41, 41, 42, 42]
    assert [one.config.sft.seed for one in kl.replicates] == [41, 41, 42, 42]
    # tiny's rl.seed is 1; methods share their seeds, so that they are paired
    assert [one.config.rl.seed for one in kl.replicates] == [1, 2, 1, 2]
    assert [one.config.rl.seed for one in branch.replicates] == [1, 2, 1, 2]
    assert first.initial.label == second.initial.label == base.replicates[0].policy.label
    assert third.initial.label == base.replicates[1].policy.label != first.initial.label
    assert first.config.rl.steps == 40


def test_initial_policies_come_one_after_the_other_each_read_exactly(tmp_path: Path) -> None:
    tasks = plan(tmp_path).tasks
    of_one = ["sft", "exact", "rl", "exact", "rl", "exact", "rl", "exact", "rl", "exact"]
    assert [task.kind for task in tasks] == of_one * 2
    training, reading = tasks[2:4]
    assert reading.needs is training
    assert training.words == ("rl",)
    assert reading.words[:6] == (
        "analyze", "exact", f"{training.name}@all", "--temperature", "0.9,1,1.1", "--k"
    )  # fmt: skip
    assert "--set data.arithmetic.seed=41" in reading.typed
    assert {task.state for task in tasks} == {"to do"}
    # 200 problems by the initial policy; by a training those of its end and of 40 / 10 checkpoints
    assert cost_of(tasks[1]).problems_read == 200
    assert cost_of(reading).problems_read == 200 * 5


def test_some_initial_policies_and_methods_may_be_typed(tmp_path: Path) -> None:
    found = plan(tmp_path, only=("kl", "branch"), initial_policies=(43,))
    replicates = found.parts[0].replicates
    assert [(one.title, one.start) for one in replicates] == [
        ("kl, initial policy 43, seed 1", "43"), ("kl, initial policy 43, seed 2", "43"),
        ("branch, initial policy 43, seed 1", "43"), ("branch, initial policy 43, seed 2", "43"),
    ]  # fmt: skip


def test_what_is_typed_names_initial_policies() -> None:
    assert parse_starts("8") == 8
    assert parse_starts("41, 42") == (41, 42)
    assert parse_starts("41..43,50") == (41, 42, 43, 50)
    assert parse_starts("org/a,org/b") == ("org/a", "org/b")
    with pytest.raises(ConfigurationError, match="ends before it begins"):
        parse_starts("43..41")
    assert parse_starts("41..41") == (41,)


@pytest.mark.parametrize("text", ["0", "1", "", ","])
def test_fewer_than_two_initial_policies_are_refused(text: str) -> None:
    with pytest.raises(ConfigurationError, match="fewer than 2 initial policies"):
        parse_starts(text)


def test_a_number_counts_from_the_configurations_seed() -> None:
    tiny = load(("tiny",)).config
    assert [one.name for one in starts(3, tiny)] == ["0", "1", "2"]
    assert starts((7,), tiny)[0].settings == {"data.arithmetic.seed": 7, "sft.seed": 7}


def test_pretrained_models_are_named() -> None:
    paper = load(("qwen2.5-math-7b",)).config
    one, _ = starts(("org/a", "org/b"), paper)
    assert (one.name, one.settings) == ("org/a", {"model.path": "org/a"})
    for wanted in (2, (41, 42)):
        with pytest.raises(ConfigurationError, match="not trained from scratch"):
            starts(wanted, paper)


def test_what_cannot_be_several_initial_policies() -> None:
    tiny = load(("tiny",)).config
    with pytest.raises(ConfigurationError, match="has no names"):
        starts(("org/a",), tiny)
    with pytest.raises(ConfigurationError, match="listed twice"):
        starts((41, 41), tiny)


def test_data_without_a_seed_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "mine.jsonl"
    file.write_text('{"question": "1+1=?", "gold": "2"}\n')
    of_file = {"name": str(file)}
    data = {"data": {"sft": of_file, "rl": of_file}, "evaluation": {"benchmark": str(file)}}
    with pytest.raises(ConfigurationError, match="no generator draws"):
        starts(2, load(("tiny",), data).config)


def test_problems_without_right_texts_are_refused_before_anything_runs(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="nothing says which texts are right on minerva"):
        plan(tmp_path, sets=("evaluation.benchmark=minerva",))
