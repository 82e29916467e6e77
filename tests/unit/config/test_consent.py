"""What a stored configuration doesn't decide: where requests, keys and commands go."""

import json
import re
import shlex
from pathlib import Path

import pytest

from sage_cli.config.consent import (
    current,
    services,
    set_words,
    typed_again,
    without_consent,
    without_services,
)
from sage_cli.config.load import load
from sage_cli.errors import ConfigurationError
from sage_cli.training import launch
from sage_cli.trials.executors.executor import Resources
from sage_cli.trials.task import Task

EVIL = {
    "sampling": {
        "backend": "server",
        "servers": ["http://evil:1"],
        "server_model": "theirs",
        "server_form": "chat",
        "temperature": 0.9,
        "vllm": {"tensor_parallel_size": 2, "kv_ip": "evil"},
    },
    "rollout": {"backend": "vllm", "vllm": {"mode": "server", "server_url": "http://evil:2"}},
    "sweep": {"trials": 4},
    "executor": {
        "name": "slurm",
        "address": "evil:3",
        "setup": ["curl evil"],
        "lines": {"prolog": "evil"},
        "partition": "long",
    },
}


def test_a_stored_configuration_gives_decoding_and_no_services(caplog):
    config = load(stored=EVIL).config
    assert "evil" not in json.dumps(config.model_dump(mode="json"))
    assert (config.sampling.backend, config.sampling.servers) == ("auto", ())
    assert not config.sampling.asks_servers
    assert not config.sampling.served
    assert config.sampling.temperature == 0.9
    assert config.sampling.vllm == {"tensor_parallel_size": 2}
    assert (config.sweep.trials, config.executor.partition) == (4, "long")
    (said,) = caplog.messages
    assert "aren't asked" in said
    assert "evil" not in said


def test_servers_that_are_typed_or_in_a_named_preset_are_asked(tmp_path, caplog):
    mine = "sampling.servers=[http://mine:1]"
    assert load(sets=[mine], stored=EVIL).config.sampling.servers == ("http://mine:1",)
    (tmp_path / "own.yaml").write_text("sampling: {servers: ['http://mine:2']}")
    named = load([str(tmp_path / "own.yaml")], stored=EVIL).config
    assert named.sampling.servers == ("http://mine:2",)
    assert not caplog.messages
    with pytest.raises(ConfigurationError, match=r"no sampling\.servrs"):  # a typo is no service
        load(stored={"sampling": {"servrs": []}})


def test_the_words_of_its_services_say_them_again():
    typed = [
        "sampling.servers=['http://mine:1', 'http://ann@mine:2/v1']",
        "sampling.server_model=theirs",
        "rollout.vllm={mode: server, server_url: 'http://mine:3'}",
        "executor.name=slurm",
        "executor.setup=[module load cuda]",
        "executor.lines={constraint: h100}",
        "sampling.vllm={max_model_len: 99, swap_space: 4}",
    ]
    config = load(sets=typed).config
    values = json.loads(json.dumps(config.model_dump(mode="json")))
    words = [*set_words(services(values))]
    assert words[::2] == ["--set"] * (len(words) // 2)
    again = load(sets=shlex.split(shlex.join(words))[1::2], stored=values).config
    assert again == config
    ours = [*set_words(services(values, ("sampling",)))]
    assert all(word.startswith("sampling.") for word in ours[1::2])
    assert services(load().config.model_dump(mode="json")) == {}
    assert "mine" not in json.dumps(without_services(values))
    assert without_services(values)["run"] == values["run"]
    assert current(values)["executor"]["name"] == "slurm"


@pytest.mark.parametrize(
    ("stored", "setting"),
    [({"sweep": {"raced": True}}, "raced"), ({"executor": {"warmed": True}}, "warmed")],
)
def test_settings_of_another_version_are_named_as_such(stored, setting):
    with pytest.raises(ConfigurationError, match=f"another version of sage.*{setting}") as old:
        load(stored=stored)
    assert "runs/ID/model" in old.value.next_step


def test_typed_mistakes_are_the_typists_and_registered_names_need_no_consent():
    with pytest.raises(ConfigurationError) as mistaken:
        load(sets=["sweep.raced=true"], stored={"sweep": {"trials": 4}})
    assert "another version" not in str(mistaken.value)
    stored = {
        "rl": {"rewards": [{"name": "grade"}, {"name": "brevity"}]},
        "grading": {"judge": "roles"},
    }
    config = load(stored=stored).config
    assert (config.grading.judge, len(config.rl.rewards)) == ("roles", 2)
    assert without_consent(stored) == stored


TRUSTING = {"kind": "pretrained", "path": "some/model", "trust_remote_code": True}
STORED = {"model": TRUSTING}
YES, NO = "model.trust_remote_code=true", "model.trust_remote_code=false"


def test_what_is_typed_decides_and_everything_else_holds(tmp_path):
    assert load(stored=STORED, sets=[YES]).config.model.trust_remote_code is True
    assert load(stored=STORED, sets=[NO]).config.model.trust_remote_code is False
    flags = {"model": {"trust_remote_code": True}}
    assert load(stored=STORED, flags=flags).config.model.trust_remote_code is True
    preset = tmp_path / "mine.yaml"
    preset.write_text("model: {kind: pretrained, path: some/model, trust_remote_code: true}")
    assert load([str(preset)], stored=STORED).config.model.trust_remote_code is True
    assert load([str(preset)], sets=[NO]).config.model.trust_remote_code is False
    with pytest.raises(ConfigurationError, match="cannot consent to that") as caught:
        load(stored=STORED)
    assert f"--set {YES}" in caught.value.next_step
    kept = load(stored=without_consent(STORED)).config.model
    assert (kept.path, kept.trust_remote_code) == ("some/model", False)
    assert without_consent({"model": 5, "sampling": None}) == {"model": 5, "sampling": None}
    unasked = {"model": {**TRUSTING, "trust_remote_code": False}}
    assert load(stored=unasked).config.model.trust_remote_code is False
    stored = {"sampling": {"vllm": ENGINE}}
    plain = {"gpu_memory_utilization": 0.5}
    assert load(stored=stored).config.sampling.vllm == plain
    assert load(sets=[f"sampling.vllm={ENGINE}"]).config.sampling.vllm == ENGINE


ENGINE = {
    "worker_cls": "runs.evil.Worker",
    "kv_transfer_config": {"module": "evil"},
    "gpu_memory_utilization": 0.5,
    "enforce_eager": True,
}


def as_a_task(config):
    """The configuration of a task as it is typed: its file, and the words beside it."""
    task = Task("x", "x", ("rl",), config, bool, Resources()).command(Path("c.json"), Path("log"))
    typed = [task.words[at + 1] for at, word in enumerate(task.words) if word == "--set"]
    return load(stored=config.model_dump(mode="json"), sets=typed).config


def test_a_task_has_the_consent_that_its_driver_was_given(tmp_path, own):
    """Its configuration is a file, which a command reads as a stored one."""
    root = f"run.root={tmp_path}"
    model = ["model.kind=pretrained", "model.path=some/model"]
    functions = [f"{name}={value}" for name, value in own.items()]
    for sets in ([*model, YES, f"sampling.vllm={ENGINE}"], ["tracking.wandb=online"], functions):
        config = load(sets=[root, *sets]).config
        again = as_a_task(config)
        for section in ("model", "sampling", "tracking", "grading", "rl"):
            assert getattr(again, section) == getattr(config, section)
    assert typed_again(load(sets=[root, *model]).config) == ()


def test_processes_that_train_together_have_it_too(tmp_path, monkeypatch):
    from sage_cli.progress import Silent
    from sage_cli.store.run import Runs

    model = ["model.kind=pretrained", "model.path=some/model", "rl.processes=2"]
    commands = []
    monkeypatch.setattr(launch, "run_together", lambda command, *_: commands.append(command))
    run = Runs(tmp_path).at("rl", "x", "1" * 8)
    for sets in ([YES], []):
        config = load(sets=[f"run.root={tmp_path}", *model, *sets]).config
        launch.train_together(config, run, None, Silent(), {})
    assert [YES in command for command in commands] == [True, False]


@pytest.mark.parametrize(
    ("said", "holds"), [("online", "offline"), ("offline", "offline"), ("off", "off")]
)
def test_nothing_is_sent_to_wandb_because_a_stored_configuration_says_so(said, holds):
    assert load(stored={"tracking": {"wandb": said}}).config.tracking.wandb == holds


OWN = "def close(answer, gold): ...\ndef brief(completions): ..."


@pytest.fixture
def own(tmp_path):
    (tmp_path / "mine.py").write_text(OWN)
    return {
        "grading.judge": f"{tmp_path}/mine.py:close",
        "rl.rewards": [{"name": "grade"}, {"name": f"{tmp_path}/mine.py:brief"}],
    }


def test_a_stored_configuration_chooses_no_launcher_but_one_that_ships(tmp_path):
    """Such a file names addresses, ports and what is started."""
    file = tmp_path / "theirs.yaml"
    file.write_text("distributed_type: MULTI_GPU\nmain_process_port: 29777\n")
    stored = {"rl": {"processes": 2, "accelerate": str(file)}}
    with pytest.raises(
        ConfigurationError, match=r"has rl\.accelerate=.*which addresses"
    ) as refused:
        load(stored=stored)
    (typed,) = re.findall(r"--set (.*?) if it may", refused.value.next_step)
    said = load(stored=stored, sets=shlex.split(typed)).config
    assert said.rl.accelerate == str(file)
    assert as_a_task(said).rl.accelerate == str(file)  # a task has what its driver was given
    assert load(stored=without_consent(stored)).config.rl.accelerate is None
    shipped = {"rl": {"processes": 2, "accelerate": "ddp"}}
    assert load(stored=shipped).config.rl.accelerate == "ddp"
    assert without_consent(shipped) == shipped


@pytest.mark.parametrize("setting", ["grading.judge", "rl.rewards"])
def test_a_stored_configuration_has_no_function_of_its_own_run(own, setting):
    section, _, name = setting.partition(".")
    stored = {section: {name: own[setting]}}
    with pytest.raises(ConfigurationError, match=f"has {setting}=.*can't have it run") as refused:
        load(stored=stored)
    (typed,) = re.findall(r"--set (.*?) if it may", refused.value.next_step)
    (word,) = shlex.split(typed)
    said = load(stored=stored, sets=[word]).config
    assert said.model_dump()[section][name]
    usual = {"grading.judge": "null", "rl.rewards": "grade"}[setting]
    assert load(stored=stored, sets=[f"{setting}={usual}"]).config
    assert without_consent(stored) == {section: {}}
