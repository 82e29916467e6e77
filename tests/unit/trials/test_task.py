"""Tasks: what is stored of them, their commands and their states."""

import json

import pytest

from sage_cli.config.load import load
from sage_cli.errors import StoreError
from sage_cli.evaluation.policy_samples import PolicySamples
from sage_cli.models.policy import Policy
from sage_cli.trials.executors.executor import Resources
from sage_cli.trials.stored_results import BenchmarkCache, stored_results
from sage_cli.trials.task import STATES_FILE, Task, TaskStates, stored_states


@pytest.fixture
def config(tmp_path):
    evaluation = {"samples": 1, "k": "1", "limit": 2}
    return load(("tiny",), {"run": {"root": tmp_path}, "evaluation": evaluation}).config


@pytest.fixture
def policy(tmp_path):
    """What is read of a model before it is loaded."""
    folder = tmp_path / "model"
    folder.mkdir()
    (folder / "config.json").write_text('{"torch_dtype": "float32"}')
    (folder / "tokenizer_config.json").write_text('{"eos_token": "<|end|>"}')
    return Policy(str(folder))


def test_benchmarks_are_read_once_and_what_cannot_be_counted_is_unmeasured(config, policy):
    benchmarks = BenchmarkCache()
    again = config.model_copy(deep=True)
    assert benchmarks.load(config) is benchmarks.load(again)
    benchmarks = BenchmarkCache()
    assert stored_results(policy, config, benchmarks) is None
    assert stored_results(Policy("nobody/never-here"), config, benchmarks) is None
    samples = PolicySamples.from_config(policy, config, config.run.root)
    stored = samples.at(config.evaluation.seed)
    stored.folder.mkdir(parents=True)
    (stored.folder / "set.json").write_text(json.dumps({"model": "another"}))
    with pytest.raises(StoreError, match="describes another set"):
        stored_results(policy, config, BenchmarkCache())


def task(name, needs=None, state="to do"):
    return Task(name, name, (name,), None, lambda: state == "done", Resources(), needs=needs)


def test_task_states_are_written_at_once_and_a_torn_file_has_none(tmp_path):
    assert stored_states(tmp_path) == []
    (tmp_path / STATES_FILE).write_text("{")
    assert stored_states(tmp_path) == []
    first = task("one", state="done")
    states = TaskStates(tmp_path, [first, task("two", needs=first)])
    assert [(one["name"], one["state"]) for one in stored_states(tmp_path)] == [
        ("one", "done"),
        ("two", "to do"),
    ]
    states.note("two", "failed")
    states.note("of another suite", "done")
    assert stored_states(tmp_path)[1] == {
        "name": "two",
        "title": "two",
        "command": "sage two",
        "needs": "one",
        "state": "failed",
    }
