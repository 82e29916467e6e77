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
    loaded("fsdp2", "model.tuning=lora")


def test_a_file_that_is_not_there_is_left_to_the_launch():
    assert loaded("gone.yaml").config.rl.accelerate == "gone.yaml"
