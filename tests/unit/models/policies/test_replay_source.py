"""The run whose completions a training replays: found, part of the identity, refused."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from sage_cli.commands.train.sft import tags
from sage_cli.config.load import load
from sage_cli.config.specs import RlSpec
from sage_cli.errors import ConfigurationError, StoreError
from sage_cli.models.policies.planned import rl_run
from sage_cli.models.policies.policy import Policy
from sage_cli.models.policies.replay_source import replay_source, require_fit_source
from sage_cli.models.scratch import save_scratch
from sage_cli.problems.template import PromptTemplate
from sage_cli.store.runs.run import Run, Runs
from sage_cli.store.runs.training_completions import SCHEMA

SIZE = ["model.hidden=16", "model.layers=1", "model.heads=2", "model.feed_forward=32"]
REPLAY = ("rl.replay.share=0.25", "rl.replay.run=rl-met")


def spec(*sets: str) -> RlSpec:
    return RlSpec.of(load(sets=[*SIZE, *sets]).config)


def model(folder: Path, *sets: str) -> Policy:
    config = load(sets=[*SIZE, *sets]).config
    save_scratch(config.model, tags(config.prompt), [], folder)
    return Policy(str(folder))


@pytest.fixture
def start(tmp_path: Path) -> Policy:
    return model(tmp_path / "start")


@pytest.fixture
def runs(tmp_path: Path, start: Policy) -> Runs:
    """A finished run under the usual prompt that kept a completion with log-probabilities."""
    runs = Runs(tmp_path / "runs")
    template = PromptTemplate.from_section(spec().prompt, start.tokenizer_facts).hash
    record(runs.at("rl", "met", "1" * 8), [-0.5], template)
    return runs


def record(run: Run, logps: list[float] | None, template: str, *sets: str) -> None:
    with run.recording({}, kind="rl", template=template):
        model(run.model, *sets)
        row: dict[str, Any] = dict.fromkeys(SCHEMA.names) | {"step": 1, "policy_logps": logps}
        run.completions().write(pa.Table.from_pylist([row], schema=SCHEMA))


def test_the_identity_has_the_run_by_its_identity(runs: Runs, start: Policy) -> None:
    def named(*sets: str) -> str:
        return rl_run(spec(*sets), start, runs, 1).id

    replayed = named(*REPLAY)
    assert named(REPLAY[0], f"rl.replay.run={runs.root / ('rl-met-' + '1' * 8)}") == replayed
    own = named(REPLAY[0], "tracking.rollouts=all")
    assert len({named(), own, replayed}) == 3
    assert named("rl.replay.share=0") == named()
    assert replay_source(spec(*REPLAY).rl, runs) == runs.find("rl-met")
    assert replay_source(spec().rl, runs) is None


def test_an_unfit_run_is_refused(runs: Runs, start: Policy) -> None:
    require_fit_source(spec(*REPLAY), start, runs)
    with pytest.raises(StoreError, match="its completions answer other prompts"):
        require_fit_source(spec(*REPLAY, "prompt.answer_open=<ANSWER>"), start, runs)
    template = runs.find("rl-met").manifest["template"]
    record(runs.at("rl", "bare", "2" * 8), None, template)
    bare = spec(REPLAY[0], "rl.replay.run=rl-bare")
    with pytest.raises(StoreError, match="keeps no completion with log-probabilities"):
        require_fit_source(bare, start, runs)
    record(runs.at("rl", "words", "3" * 8), [-1.0], template, "prompt.answer_open=<ANSWER>")
    words = spec(REPLAY[0], "rl.replay.run=rl-words")
    with pytest.raises(ConfigurationError, match=r"replayed run .* has another tokenizer"):
        require_fit_source(words, start, runs)


def test_an_unfinished_run_is_refused(runs: Runs) -> None:
    run = runs.at("rl", "broken", "4" * 8)
    with run.recording({}, kind="rl"):
        pass
    run.note(status="failed")
    with pytest.raises(StoreError, match="is failed, not finished, and"):
        replay_source(spec(REPLAY[0], "rl.replay.run=rl-broken").rl, runs)


@pytest.mark.parametrize(
    ("sets", "said"),
    [
        (["rl.replay.share=0.25"], "tracking.rollouts is 4"),
        (["rl.replay.max_age=5"], "max_age 5 would do nothing while share is 0"),
        (["rl.replay.share=0.01", REPLAY[1]], "0.01 of 16 rollouts is less than one"),
        ([*REPLAY, "rl.algo=dars"], "has rollouts, a reward or a loss of its own"),
        ([*REPLAY, "rl.algo=steer"], "has rollouts, a reward or a loss of its own"),
        ([*REPLAY, "rl.processes=2"], "keeps completions in one process"),
    ],
)
def test_settings_that_cannot_act(sets: list[str], said: str) -> None:
    with pytest.raises(ConfigurationError, match=said):
        load(("tiny",), sets=sets)
