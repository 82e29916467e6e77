"""From configuration to guide, plug-ins included."""

from dataclasses import dataclass
from importlib.metadata import EntryPoint

import pytest
import torch
from pydantic import TypeAdapter

from sage_cli.config.guide import GuideSection
from sage_cli.config.schema import SageConfig
from sage_cli.errors import ConfigurationError
from sage_cli.guides import (
    BranchGuide,
    CosineCycles,
    Guide,
    NoGuide,
    RandomGuide,
    Signals,
    TokenGuide,
    build_guide,
)
from sage_cli.guides import build as build_module


def section(**values):
    return TypeAdapter(GuideSection).validate_python(values)


def test_each_name_gives_its_guide_with_its_settings():
    assert build_guide(section(name="none")) == NoGuide()
    branch = section(name="branch", tau=0.4, rho=0.7, q_max=2.0, signal="reference")
    assert build_guide(branch) == BranchGuide(0.4, 0.7, 0.6, 2.0, "reference")
    noisy = {"cycles": 4, "decay": 0.5, "seed": 5, "schedule_clock": "loss_call"}
    random = section(name="random", epsilon=(0.3, 0.1), sigma=(0.2, 0.0), **noisy)
    assert build_guide(random, max_steps=80) == RandomGuide(
        epsilon=(0.3, 0.1), sigma=(0.2, 0.0), schedule=CosineCycles(80, 4, 0.5), seed=5,
        clock="loss_call",
    )  # fmt: skip
    token = section(name="token", alpha=(0.2, 0.1), norm="rank", signal="reference", **noisy)
    assert build_guide(token, max_steps=80) == TokenGuide(
        alpha=(0.2, 0.1),
        norm="rank",
        schedule=CosineCycles(80, 4, 0.5),
        seed=5,
        signal="reference",
        clock="loss_call",
    )


def test_a_whole_configuration_gives_the_schedule_its_length():
    config = SageConfig.model_validate({"guide": {"name": "random"}, "rl": {"steps": 77}})
    guide = build_guide(config)
    assert isinstance(guide, RandomGuide)
    assert guide.schedule.max_steps == 77


@dataclass(frozen=True)
class Constant(Guide):
    value: float = 1.1
    q_min: float = 0.6
    q_max: float = 1.4

    def q(self, signals: Signals, step: int) -> torch.Tensor:
        return torch.full_like(signals.logps_BT, self.value)


def registered(monkeypatch: pytest.MonkeyPatch, target: str) -> None:
    point = EntryPoint("mine", target, "sage_cli.guides")
    monkeypatch.setattr(build_module, "entry_points", lambda **_: (point,))
    monkeypatch.setattr("sage_cli.config.guide.entry_points", lambda **_: (point,))
    monkeypatch.setattr(
        EntryPoint, "load", lambda self: {"Constant": Constant, "dict": dict}[self.attr]
    )


def test_a_plugin_is_built_from_its_options_and_clamp(monkeypatch: pytest.MonkeyPatch):
    registered(monkeypatch, "package:Constant")
    made = build_guide(section(name="mine", options={"value": 1.2}, q_max=1.3))
    assert made == Constant(value=1.2, q_max=1.3)


def test_a_plugin_that_is_no_guide_is_refused(monkeypatch: pytest.MonkeyPatch):
    registered(monkeypatch, "builtins:dict")
    with pytest.raises(ConfigurationError, match="makes a dict"):
        build_guide(section(name="mine"))
