"""What a stored configuration doesn't decide: where requests, keys and commands go."""

from __future__ import annotations

import json
import shlex

import pytest

from sage_cli.config.load import load
from sage_cli.config.stored import current, service_words, without_services
from sage_cli.errors import ConfigurationError

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
    "sweep": {"storage": "postgresql://evil/x", "trials": 4},
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
    with pytest.raises(ConfigurationError, match="no 'servrs'"):  # a typo is no service
        load(stored={"sampling": {"servrs": []}})


def test_the_words_of_its_services_say_them_again():
    typed = [
        "sampling.servers=['http://mine:1', 'http://ann@mine:2/v1']",
        "sampling.server_model=theirs",
        "rollout.vllm={mode: server, server_url: 'http://mine:3'}",
        "executor.name=slurm",
        "executor.setup=[module load cuda]",
        "executor.lines={constraint: h100}",
        "sweep.storage=postgresql://ann@mine/x",
        "sampling.vllm={max_model_len: 99, swap_space: 4}",
    ]
    config = load(sets=typed).config
    values = json.loads(json.dumps(config.model_dump(mode="json")))
    words = service_words(values)
    assert words[::2] == ["--set"] * (len(words) // 2)
    again = load(sets=shlex.split(shlex.join(words))[1::2], stored=values).config
    assert again == config
    ours = service_words(values, ("sampling",))
    assert all(word.startswith("sampling.") for word in ours[1::2])
    assert service_words(load().config.model_dump(mode="json")) == []
    assert "mine" not in json.dumps(without_services(values))
    assert without_services(values)["run"] == values["run"]
    assert current(values)["executor"]["name"] == "slurm"


@pytest.mark.parametrize(
    ("stored", "setting"),
    [({"sweep": {"raced": True}}, "raced"), ({"executor": {"warmed": True}}, "warmed")],
)
def test_settings_of_another_version_are_named_as_such(stored, setting):
    with pytest.raises(ConfigurationError, match=f"another version of sage.*\n.*{setting}") as old:
        load(stored=stored)
    assert "runs/ID/model" in old.value.next_step


def test_a_typed_mistake_over_a_stored_configuration_is_the_typists():
    with pytest.raises(ConfigurationError) as mistaken:
        load(sets=["sweep.raced=true"], stored={"sweep": {"trials": 4}})
    assert "another version" not in str(mistaken.value)
