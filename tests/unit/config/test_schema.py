"""What an accelerate configuration says that the settings beside it don't."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from sage_cli.config.load import load
from sage_cli.errors import ConfigurationError


def loaded(file: str | Path, *sets: str) -> Any:
    return load(sets=[f"rl.accelerate={file}", "rl.processes=2", *sets])


@pytest.mark.parametrize(
    ("said", "complaint"),
    [
        ({"num_processes": 8}, "is for 8 processes, and rl.processes is 2 .*--processes 8"),
        ({"num_machines": 2}, "is for 2 machines, and --processes starts all of them on this one"),
    ],
)
def test_a_file_for_other_numbers_is_refused(tmp_path: Path, said: dict[str, int], complaint: str):
    file = tmp_path / "own.yaml"
    file.write_text(yaml.safe_dump({"distributed_type": "MULTI_GPU", **said}))
    with pytest.raises(ConfigurationError, match=complaint):
        loaded(file)


def test_a_file_for_the_same_number_or_none_passes(tmp_path: Path):
    for said in ({"num_processes": 2, "num_machines": 1}, {"num_processes": -1}, {}):
        file = tmp_path / "own.yaml"
        file.write_text(yaml.safe_dump({"distributed_type": "MULTI_GPU", **said}))
        assert loaded(file).config.rl.processes == 2


def test_zero_3_takes_no_adapters():
    with pytest.raises(ConfigurationError, match="'zero3': DeepSpeed's ZeRO stage 3 fails"):
        loaded("zero3", "model.tuning=lora")
    loaded("zero3", "model.tuning=full")
    loaded("fsdp2", "model.tuning=lora", "rl.optimizer=adamw")


@pytest.mark.parametrize("tuning", ["full", "lora"])
def test_fsdp_2_takes_no_8_bit_optimizer(tmp_path: Path, tuning: str):
    model, eight = f"model.tuning={tuning}", "rl.optimizer=adamw_8bit"
    refusal = "'fsdp2': rl.optimizer 'adamw_8bit' can't .*--set rl.optimizer=adamw"
    with pytest.raises(ConfigurationError, match=refusal):
        loaded("fsdp2", model, eight)
    loaded("fsdp2", model, "rl.optimizer=adamw")
    loaded("zero3", "model.tuning=full", eight)
    first = tmp_path / "first.yaml"  # the first version has plain tensors
    said = {"distributed_type": "FSDP", "fsdp_config": {"fsdp_version": 1}}
    first.write_text(yaml.safe_dump(said))
    loaded(first, model, eight)


def test_deepspeed_takes_no_dars(tmp_path: Path):
    second = tmp_path / "second.yaml"
    said = {"distributed_type": "DEEPSPEED", "deepspeed_config": {"zero_stage": 2}}
    second.write_text(yaml.safe_dump(said))
    dars = {"rl": {"algo": "dars"}}
    for file in ("zero3", second):
        loaded(file, "model.tuning=full")
        sets = [f"rl.accelerate={file}", "rl.processes=2", "model.tuning=full"]
        with pytest.raises(ConfigurationError, match=r"rl.algo 'dars' computes .* fsdp2 or ddp"):
            load(flags=dars, sets=sets)
    load(flags=dars, sets=["rl.accelerate=fsdp2", "rl.processes=2"])


@pytest.mark.parametrize("preset", ["qwen2.5-3b-instruct-full", "qwen2.5-math-1.5b-instruct-full"])
def test_presets_of_all_weights_can_be_sharded(preset: str):
    sets = ["rl.accelerate=fsdp2", "rl.processes=4"]
    assert load([preset], sets=sets).config.rl.optimizer == "adamw"


def test_a_file_that_is_not_there_is_left_to_the_launch():
    assert loaded("gone.yaml").config.rl.accelerate == "gone.yaml"
