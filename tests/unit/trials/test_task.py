"""Tasks: what is stored of them, their commands and their states."""

from __future__ import annotations

import json
import math
from pathlib import Path

import pytest

from sage_cli.config.load import load
from sage_cli.config.schema import SageConfig
from sage_cli.config.specs import EvaluationSpec
from sage_cli.errors import StoreError
from sage_cli.evaluation.benchmarks import load_benchmarks
from sage_cli.evaluation.exact.chances import exact_reader
from sage_cli.evaluation.sample_sets import PolicySamples
from sage_cli.models.policies.policy import Policy
from sage_cli.trials.executors.executor import Resources
from sage_cli.trials.task import FILE, StoredMeasurements, Task, TaskStates, stored_states


@pytest.fixture
def config(tmp_path: Path) -> SageConfig:
    evaluation = {"samples": 1, "k": "1", "limit": 2}
    return load(("tiny",), {"run": {"root": tmp_path}, "evaluation": evaluation}).config


@pytest.fixture
def policy(tmp_path: Path) -> Policy:
    """What is read of a model before it is loaded."""
    folder = tmp_path / "model"
    folder.mkdir()
    (folder / "config.json").write_text('{"torch_dtype": "float32"}')
    (folder / "tokenizer_config.json").write_text('{"eos_token": "<|end|>"}')
    return Policy(str(folder))


def test_what_was_never_drawn_or_never_here_is_not_measured_yet(
    config: SageConfig, policy: Policy
) -> None:
    given = StoredMeasurements(load_benchmarks(config.evaluation, config.data))
    for one in (policy, Policy("nobody/never-here")):
        assert StoredMeasurements().measured(one, config) is None
        assert given.measured(one, config) is None


def test_what_can_not_be_counted_is_said_and_not_taken_for_missing(
    config: SageConfig, policy: Policy
) -> None:
    samples = PolicySamples.of_evaluation(policy, EvaluationSpec.of(config), config.run.root)
    stored = samples.at(config.evaluation.seed)
    stored.folder.mkdir(parents=True)
    (stored.folder / "set.json").write_text(json.dumps({"model": "another"}))
    with pytest.raises(StoreError, match="describes another set"):
        StoredMeasurements().measured(policy, config)
    given = StoredMeasurements(load_benchmarks(config.evaluation, config.data))
    with pytest.raises(StoreError, match="describes another set"):
        given.measured(policy, config)


def test_exact_chances_are_there_when_all_are_stored(config: SageConfig, policy: Policy) -> None:
    (Path(policy.path) / "model.safetensors").write_bytes(b"weights")
    stored = StoredMeasurements()
    (benchmark,) = stored.benchmarks(config)
    samples = PolicySamples.of_evaluation(policy, EvaluationSpec.of(config), config.run.root)
    reader = exact_reader(samples, benchmark, config.data, (1.0, 1.2))
    first, second = benchmark.golds
    logps = {(first, "S", 1.0): -1.0, (first, "D", 1.2): -2.0, (second, "R", 1.0): -3.0}
    every = {(id_, way, t): -9.0 for id_ in (first, second) for way in "SRD" for t in (1.0, 1.2)}
    reader._store.add(logps)
    assert stored.chances(policy, config, (1.0, 1.2)) is None
    assert not stored.chances_are_read(policy, config, (1.0, 1.2), all_of_it=False)
    reader._store.add({**every, **logps})
    assert stored.chances_are_read(policy, config, (1.0, 1.2), all_of_it=False)
    # the chances of another temperature are none of these
    assert stored.chances(policy, config, (1.0, 1.3)) is None
    chances = (stored.chances(policy, config, (1.0, 1.2)) or {})[benchmark.name]
    assert chances.of_way(1.0, "S").tolist() == pytest.approx([math.exp(-1), math.exp(-9)])
    assert chances.of_way(1.2, "D").tolist() == pytest.approx([math.exp(-2), math.exp(-9)])
    assert chances.of_way(1.0, "R").tolist() == pytest.approx([math.exp(-9), math.exp(-3)])


@pytest.mark.parametrize("name", ["0", "g"])
def test_a_chance_that_is_nan_is_missing(config: SageConfig, policy: Policy, name: str) -> None:
    """Also where its file, which is renamed, is read before or after a whole one."""
    (Path(policy.path) / "model.safetensors").write_bytes(b"weights")
    (benchmark,) = StoredMeasurements().benchmarks(config)
    samples = PolicySamples.of_evaluation(policy, EvaluationSpec.of(config), config.run.root)
    reader = exact_reader(samples, benchmark, config.data, (1.0,))
    every = {(id_, way, 1.0): -9.0 for id_ in benchmark.golds for way in "SRD"}
    broken = next(iter(every))
    reader._store.add({**every, broken: math.nan})
    (file,) = reader._store.folder.glob("*.chances")
    file.rename(file.with_stem(name))
    assert reader.missing() == (1, len(every))
    assert reader.stored() is None
    reader._store.add({broken: -9.0})
    assert reader.missing() == (0, len(every))
    assert reader.stored() is not None


def task(name, needs=None, state="to do"):
    return Task(name, name, (name,), None, lambda: state == "done", Resources(), needs=needs)


def test_each_end_is_written_at_once(tmp_path):
    first = task("one", state="done")
    states = TaskStates(tmp_path, [first, task("two", needs=first)])
    assert [(one["name"], one["state"]) for one in stored_states(tmp_path)] == [
        ("one", "done"),
        ("two", "to do"),
    ]
    states.note("two", "failed")
    states.note("of another suite", "done")
    assert stored_states(tmp_path)[1] == {
        "name": "two", "title": "two", "command": "sage two", "needs": "one", "state": "failed",
    }  # fmt: skip


def test_a_missing_or_torn_file_has_no_tasks(tmp_path):
    assert stored_states(tmp_path) == []
    (tmp_path / FILE).write_text("{")
    assert stored_states(tmp_path) == []
