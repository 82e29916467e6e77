"""What isn't measured yet is told from what is stored and can't be counted."""

from __future__ import annotations

import json
import math
from pathlib import Path

import pytest
from sage_cli.evaluation.exact.chances import exact_reader

from sage_cli.config.load import load
from sage_cli.config.schema import SageConfig
from sage_cli.config.specs import EvaluationSpec
from sage_cli.errors import StoreError
from sage_cli.evaluation.benchmarks import load_benchmarks
from sage_cli.evaluation.sample_sets import PolicySamples
from sage_cli.models.policies.policy import Policy
from sage_cli.trials.stored import StoredMeasurements


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
