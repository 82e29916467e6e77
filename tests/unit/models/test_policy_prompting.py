"""Under which settings a model is measured that no run here made."""

import json
import subprocess
import sys

import pytest

from sage_cli.config.load import load
from sage_cli.errors import ConfigurationError, DataError, StoreError
from sage_cli.evaluation.policy_samples import PolicySamples
from sage_cli.models.folders import fingerprint
from sage_cli.models.measured_settings import load_measured_settings, measured_names
from sage_cli.models.policy import named_policy
from sage_cli.store.run import Runs

COMMIT = "0123456789abcdef0123456789abcdef01234567"


@pytest.fixture
def runs(tmp_path, monkeypatch):
    """A finished run of the tiny preset; the folder of runs is where the command is typed."""
    monkeypatch.chdir(tmp_path)
    runs = Runs(tmp_path / "runs")
    run = runs.at("rl", "dapo-branch", "1" * 8)
    with run.recording(load().config.model_dump(mode="json"), kind="rl"):
        model(run.model)
    return runs


def model(folder, **sage):
    """What looks like a model; `sage` is what sage.json says."""
    folder.mkdir(parents=True)
    (folder / "config.json").write_text('{"torch_dtype": "bfloat16"}')
    (folder / "tokenizer_config.json").write_text('{"eos_token": "<|end|>"}')
    if sage:
        (folder / "sage.json").write_text(json.dumps(sage))
    return str(folder)


def settings(*names, preset=None, config=None, sets=()):
    return load_measured_settings(names, preset or (), config, sets, None, None, {})[0]


def test_the_tiny_preset_never_applies_to_a_foreign_model_unasked(runs, tmp_path):
    theirs = model(tmp_path / "theirs")
    with pytest.raises(ConfigurationError, match=f"no run here made {theirs}") as refusal:
        settings(theirs)
    assert "--set prompt.format=chat" in refusal.value.next_step
    assert "max_tokens" not in refusal.value.next_step
    found = settings(theirs, sets=["prompt.format=plain"])
    # the schema's defaults, which are the paper's, and neither tiny's nor the latest run's
    assert (found.sampling.max_tokens, found.sampling.temperature) == (2048, 0.3)
    assert (found.model.kind, found.model.path, found.model.dtype) == ("pretrained", theirs, "auto")
    assert settings(theirs, preset=["tiny"]).sampling.max_tokens == 48
    stored = runs.find("rl-dapo").folder / "config.json"
    assert settings(theirs, config=stored).sampling.max_tokens == 48


def test_beside_a_run_a_foreign_model_needs_a_limit_of_its_own(runs, tmp_path):
    theirs = model(tmp_path / "theirs")
    for sets in ((), ("prompt.format=plain",), ("sampling.max_tokens=9",)):
        with pytest.raises(ConfigurationError, match="no run here made"):
            settings("rl-dapo", theirs, sets=sets)
    both = ("prompt.format=plain", "sampling.max_tokens=9")
    assert settings("rl-dapo", theirs, sets=both).sampling.max_tokens == 9


def test_the_model_that_a_run_was_trained_from_is_prompted_as_the_run(runs, tmp_path):
    theirs = model(tmp_path / "theirs")
    runs.find("rl-dapo").note(parent_weights=fingerprint(theirs))
    for names in (("rl-dapo", theirs), (theirs, "rl-dapo")):
        assert settings(*names).sampling.max_tokens == 48
    others = model(tmp_path / "others")
    (tmp_path / "others" / "model.safetensors").write_bytes(b"other weights")
    for names in (("rl-dapo", theirs, others), (theirs,)):
        with pytest.raises(ConfigurationError, match="no run here made"):
            settings(*names)


def test_a_preset_written_for_the_model_is_named(runs, monkeypatch):
    monkeypatch.setattr("sage_cli.models.policy.Policy.own_settings", {})
    with pytest.raises(ConfigurationError) as refusal:
        settings("Qwen/Qwen2.5-Math-7B")
    assert "--preset qwen2.5-math-7b" in refusal.value.next_step


def test_an_exported_model_says_how_it_is_measured(runs, tmp_path):
    said = {"format": "plain", "system": None, "answer_open": "<A>"}
    drawn = {"temperature": 1.0, "max_tokens": 48}
    ours = model(tmp_path / "ours", prompt=said, sampling=drawn, template="abcdef123456")
    found = settings(ours)
    assert (found.prompt.format, found.prompt.answer_open) == ("plain", "<A>")
    assert (found.sampling.temperature, found.sampling.max_tokens) == (1.0, 48)
    assert settings(ours, sets=["sampling.max_tokens=9"]).sampling.max_tokens == 9
    # its template is held against the one in use, as a run's is
    config = settings(ours, sets=["prompt.answer_open=<B>"])
    with pytest.raises(
        ConfigurationError, match=r"ours was trained .*\(prompt.answer_open differs"
    ):
        PolicySamples.from_config(named_policy(ours, runs), config, runs.root)


def test_a_path_that_is_set_is_the_model_that_is_measured(runs, tmp_path):
    theirs = model(tmp_path / "theirs")
    sets = [f"model.path={theirs}", "prompt.format=plain"]
    assert measured_names([], sets) == [theirs]
    assert measured_names(["rl-dapo"], sets) == ["rl-dapo"]
    assert settings(*measured_names([], sets), sets=sets).model.path == theirs
    said = f"model.path is '{theirs}', but the model to measure is rl-dapo"
    with pytest.raises(ConfigurationError, match=said):
        settings("rl-dapo", sets=sets)


def test_the_path_that_a_run_began_from_may_be_typed_beside_it(runs, tmp_path):
    """As a suite's plan prints it: `sage eval RUN --preset NAME --set model.path=FOLDER`."""
    theirs = model(tmp_path / "theirs")
    sets = ["model.kind=pretrained", f"model.path={theirs}"]
    with runs.at("sft", "theirs", "2" * 8).recording(
        load(sets=sets).config.model_dump(mode="json"), kind="sft"
    ):
        pass
    assert settings("sft-theirs", preset=["tiny"], sets=sets).model.path == theirs
    said = f"model.path is '{theirs}', but the model to measure is rl-dapo"
    with pytest.raises(ConfigurationError, match=said):
        settings("rl-dapo", preset=["tiny"], sets=sets)
    runs.find("sft-theirs").note(kind="imported")  # whose configuration is nobody's choice
    with pytest.raises(ConfigurationError, match="but the model to measure is sft-theirs"):
        settings("sft-theirs", preset=["tiny"], sets=sets)


def test_names_of_the_hub_and_names_that_are_none(runs, tmp_path):
    (tmp_path / "org").mkdir()
    policy = named_policy("Qwen/Qwen2.5-Math-1.5B", runs)
    assert (policy.run, policy.label) == (None, "Qwen2.5-Math-1.5B")
    with pytest.raises(
        DataError, match=r"'Qwen/Qwen2\.5-Math-1\.5B' is not a folder here"
    ) as refusal:
        settings("Qwen/Qwen2.5-Math-1.5B", sets=["prompt.format=plain"])
    assert "hf download Qwen/Qwen2.5-Math-1.5B" in refusal.value.next_step
    for name, cause in (
        ("org/gone", "the folder org/gone does not exist"),
        ("gone", "there is no run 'gone'"),
        ("runs/rl-gone", "the folder runs/rl-gone does not exist"),
    ):
        with pytest.raises(StoreError, match=cause):
            named_policy(name, runs)


def test_a_revision_is_of_the_model_it_was_said_for(runs, tmp_path):
    theirs, other = model(tmp_path / "theirs"), model(tmp_path / "other")
    sets = ["prompt.format=plain", "model.revision=v1", "model.trust_remote_code=true"]
    said = settings(theirs, other, sets=sets).model
    loading = {name: named_policy(name, runs, said).loading for name in (theirs, other)}
    assert loading == {
        theirs: {"revision": "v1", "trust_remote_code": True},
        other: {"revision": None, "trust_remote_code": True},
    }


CACHED = """
import json
from pathlib import Path
from sage_cli.config.load import load
from sage_cli.config.schema import SageConfig
from sage_cli.evaluation.policy_samples import PolicySamples
from sage_cli.models.folders import fingerprint
from sage_cli.models.policy import named_policy
from sage_cli.store.run import Runs
policy = named_policy("org/model", Runs(Path("runs")))
config = load(["qwen2.5-math-7b"], sets=["prompt.format=plain"]).config
samples = PolicySamples.from_config(policy, config, Path("runs"))
print(json.dumps([policy.loading, samples.at(0).identity.sampling, policy.fingerprint]))
"""


@pytest.mark.slow
def test_a_hub_model_is_its_commit(tmp_path):
    """What the local cache holds of the branch; type and end token are read from its files."""

    def cached(commit):
        place = tmp_path / "hub" / "models--org--model"
        model(place / "snapshots" / commit)
        (place / "refs").mkdir(exist_ok=True)
        (place / "refs" / "main").write_text(commit)
        done = subprocess.run(
            [sys.executable, "-c", CACHED],
            capture_output=True,
            text=True,
            check=True,
            env={
                "HF_HUB_CACHE": str(tmp_path / "hub"),
                "HF_HUB_OFFLINE": "1",
                "PYTHONPATH": ":".join(sys.path),
            },
        )
        return json.loads(done.stdout)

    loading, sampling, fingerprint = cached(COMMIT)
    assert loading == {"revision": COMMIT, "trust_remote_code": False}
    assert (sampling["dtype"], sampling["eos"]) == ("bfloat16", "<|end|>")
    moved = cached(COMMIT[::-1])
    assert moved[0]["revision"] == COMMIT[::-1]
    assert moved[2] != fingerprint


def test_neither_a_model_nor_a_run_names_servers(runs, tmp_path):
    """Whoever copies a folder isn't led elsewhere by it, nor is a key."""
    evil = {"backend": "server", "servers": ["http://evil:1"], "server_model": "x", "top_p": 0.5}
    ours = model(tmp_path / "ours", prompt={"format": "plain"}, sampling=evil)
    run = runs.find("rl-dapo")
    stored = run.read_config()
    (run.folder / "config.json").write_text(json.dumps(stored | {"sampling": evil}))
    run.note(files=None)  # as in a folder that somebody made
    for found in (settings(ours), settings("rl-dapo"), settings(), settings(ours, "rl-dapo")):
        assert found.sampling.top_p == 0.5
        assert (found.sampling.backend, found.sampling.servers) == ("auto", ())
        assert found.sampling.server_model is None
        assert not found.sampling.asks_servers
    typed = settings("rl-dapo", sets=["sampling.servers=[http://mine:1]"])
    assert typed.sampling.servers == ("http://mine:1",)
    assert typed.sampling.asks_servers
