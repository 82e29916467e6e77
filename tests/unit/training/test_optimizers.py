"""The 8-bit optimiser is refused by name where it can't run."""

from __future__ import annotations

import pytest
import torch

from sage_cli.errors import ConfigurationError
from sage_cli.training import optimizers
from sage_cli.training.optimizers import optimizer_name, require_optimizer


def test_nothing_is_asked_of_the_others():
    require_optimizer("adamw", "sft.optimizer")
    assert [optimizer_name(name) for name in ("adamw", "adamw_8bit")] == [
        "adamw_torch_fused",
        "adamw_8bit",
    ]


def test_without_the_package_its_extra_is_named(monkeypatch):
    monkeypatch.setattr(optimizers, "find_spec", lambda _: None)
    with pytest.raises(ConfigurationError, match="needs the package bitsandbytes") as caught:
        require_optimizer("adamw_8bit", "rl.optimizer")
    assert "pip install 'sage-rlvr[8bit]'" in caught.value.next_step
    assert "rl.optimizer=adamw" in caught.value.next_step


def test_without_a_gpu_it_is_refused_as_well(monkeypatch):
    monkeypatch.setattr(optimizers, "find_spec", lambda name: name)
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    with pytest.raises(ConfigurationError, match="needs a GPU, and this machine has none"):
        require_optimizer("adamw_8bit", "rl.optimizer")
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    require_optimizer("adamw_8bit", "rl.optimizer")
