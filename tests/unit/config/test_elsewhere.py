"""Settings of TRL, verl, prime-rl and open-instruct, and what they are called here."""

import json
from dataclasses import fields

import pytest

from sage_cli.config.explain import typed_as_setting, typed_line
from sage_cli.config.load import load
from sage_cli.config.schema import settings
from sage_cli.errors import ConfigurationError
from sage_cli.settings.elsewhere import ABSENT, COUNTERPARTS, PROGRAMS, elsewhere
from sage_cli.settings.presets import read_layer


@pytest.mark.parametrize("row", COUNTERPARTS, ids=lambda row: row.setting)
def test_every_row_is_of_a_setting_here(row):
    assert row.setting in settings()
    assert len(row.names) == len(PROGRAMS)
    assert any(row.names)


@pytest.mark.parametrize("row", COUNTERPARTS, ids=lambda row: row.setting)
def test_the_example_of_a_row_is_a_value_of_its_setting(row):
    # with one update per generation nothing is clipped, and without dynamic sampling no further
    # generations are spent
    needed = ["rl.iterations=2", "rl.dynamic_sampling=true"]
    load(["qwen3-1.7b-base"], sets=[*needed, f"{row.setting}={row.example}"])


@pytest.mark.parametrize(
    ("setting", "line"),
    [("rl.learning_rate", "--lr 1"), ("rl.weight_decay", "--set rl.weight_decay=1")],
)
def test_a_setting_is_typed_by_its_flag_where_it_has_one(setting, line):
    assert typed_line(setting, "1") == line


def test_names_without_a_setting_have_none():
    assert not ABSENT.keys() & elsewhere().keys()


def test_a_name_elsewhere_means_one_setting():
    named = [
        (program, name, row.setting)
        for row in COUNTERPARTS
        for program, name in zip(PROGRAMS, row.names, strict=True)
        if name
    ]
    pairs = {(program, name) for program, name, _ in named}
    assert len(pairs) == len(named)
    meanings = {}
    for _, name, setting in named:
        meanings.setdefault(name, set()).add(setting)
    assert [name for name, meant in meanings.items() if len(meant) > 1] == []


def test_names_of_trl_are_trls():
    trl = pytest.importorskip("trl")
    classes = (trl.GRPOConfig, trl.ModelConfig, trl.ScriptArguments)
    known = {field.name for kind in classes for field in fields(kind)}
    known |= {"reward_funcs", "system_prompt"}  # of the trainer, and of TRL's examples
    named = {row.names[0] for row in COUNTERPARTS if row.names[0]}
    # torch_dtype, output_dir's kin and others that older releases had
    assert named - known <= {"torch_dtype", "warmup_ratio"}


@pytest.mark.parametrize(
    ("word", "line"),
    [
        ("rl.learning_rate=1e-5", "--set rl.learning_rate=1e-5"),
        ("+rl.learning-rate=1e-5", "--set rl.learning_rate=1e-5"),
        ("actor_rollout_ref.actor.clip_ratio_high=0.28", "--set rl.epsilon_high=0.28"),
        ("data.max_response_length=64", "--set rollout.max_tokens=64"),
        ("num_generations=8", "--set rl.rollouts_per_prompt=8"),
        ("rl.learning_rate", None),
        ("rl=mine", None),
    ],
)
def test_a_word_of_hydra_is_a_line_here(word, line):
    assert typed_as_setting(word) == line


TRL = "learning_rate: 1.0e-5\nnum_generations: 8\nuse_liger_kernel: true\nnum_train_epochs: 2\n"
VERL = json.dumps(
    {
        "algorithm": {"filter_groups": {"enable": True}},
        "actor_rollout_ref": {"actor": {"clip_ratio_low": 0.2}},
    }
)


@pytest.mark.parametrize(
    ("text", "lines"),
    [
        (TRL, ["--set rl.learning_rate=1e-05", "--set rl.rollouts_per_prompt=8"]),
        (VERL, ["--set rl.dynamic_sampling=true", "--set rl.epsilon_low=0.2"]),
    ],
)
def test_a_configuration_of_another_program_is_answered_key_by_key(tmp_path, text, lines):
    file = tmp_path / "run.yaml"
    file.write_text(text)
    with pytest.raises(ConfigurationError, match="2 keys have a setting here") as refused:
        read_layer(file)
    for line in lines:
        assert line in refused.value.next_step.splitlines()
    assert ("use_liger_kernel" in refused.value.cause) == (text == TRL)
    assert (ABSENT["num_train_epochs"] in refused.value.cause) == (text == TRL)


def test_presets_of_ours_are_no_configuration_of_others(tmp_path):
    file = tmp_path / "own.yaml"
    file.write_text("rl: {steps: 3}\nmodel: {path: a/b}\n")
    assert read_layer(file) == {"rl": {"steps": 3}, "model": {"path": "a/b"}}
    assert not set(elsewhere()) & set(settings())
