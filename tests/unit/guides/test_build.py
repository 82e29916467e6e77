"""From configuration to guide, plug-ins included."""

from dataclasses import dataclass
from importlib.metadata import EntryPoint
from typing import Any

import pytest
import torch
from pydantic import TypeAdapter, ValidationError

from sage_cli.config.guide import GuideSection
from sage_cli.config.plugins import AS_STORED
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


def test_without_a_length_the_schedule_has_the_papers():
    guide = build_guide(section(name="random"))
    assert isinstance(guide, RandomGuide)
    assert guide.schedule == CosineCycles(1000, 8, 0.9)


@dataclass(frozen=True)
class Constant(Guide):
    value: float = 1.1
    q_min: float = 0.6
    q_max: float = 1.4

    def __post_init__(self) -> None:
        if self.value < 0:
            raise OSError("no such value")

    def q(self, signals: Signals, step: int) -> torch.Tensor:
        return torch.full_like(signals.logps_BT, self.value)


@dataclass(frozen=True)
class Greedy(Constant):
    needs = frozenset({"logits_BTV"})


@dataclass(frozen=True)
class Listing(Constant):
    needs = ["token_ids_BT"]  # noqa: RUF012


@dataclass(frozen=True)
class Late(Constant):
    clock = "epoch"


@dataclass(frozen=True)
class Unchecked(Constant):
    def log_q(self, signals: Signals, step: int) -> torch.Tensor:
        return signals.logps_BT[0]


@dataclass(frozen=True)
class Unfinished(Guide):
    q_min: float = 0.6
    q_max: float = 1.4


PACKAGE = {
    kind.__name__: kind for kind in (Constant, Greedy, Listing, Late, Unchecked, Unfinished, dict)
}


def registered(monkeypatch: pytest.MonkeyPatch, target: str) -> None:
    point = EntryPoint("mine", target, "sage_cli.guides")
    monkeypatch.setattr("sage_cli.config.plugins.entry_points", lambda **_: (point,))
    monkeypatch.setattr(EntryPoint, "load", lambda self: PACKAGE[self.attr])


def test_a_plugin_is_built_from_its_options_and_clamp(monkeypatch: pytest.MonkeyPatch):
    registered(monkeypatch, "package:Constant")
    made = build_guide(section(name="mine", options={"value": 1.2}, q_max=1.3))
    assert made == Constant(value=1.2, q_max=1.3)


@pytest.mark.parametrize(
    ("target", "options", "complaint"),
    [
        ("builtins:dict", {}, "makes a dict"),
        ("package:Constant", {"valeu": 2}, "options valeu=2: .*unexpected keyword argument"),
        ("package:Unfinished", {}, "abstract"),
        ("package:Greedy", {}, "needs logits_BTV, which no training has"),
        ("package:Listing", {}, r"needs \['token_ids_BT'\], which is no set"),
        ("package:Late", {}, "has the clock 'epoch'"),
        ("package:Unchecked", {}, "has a log_q of its own"),
        ("package:Constant", {"value": -1}, "OSError: no such value"),
    ],
)
def test_a_plugin_that_cannot_be_made_is_named(
    monkeypatch: pytest.MonkeyPatch, target: str, options: dict[str, Any], complaint: str
):
    registered(monkeypatch, target)
    with pytest.raises(ConfigurationError, match=rf"guide 'mine' .*{target}.*{complaint}"):
        build_guide(section(name="mine", options=options))


def test_a_plugin_whose_package_is_gone_or_broken_is_named(monkeypatch: pytest.MonkeyPatch):
    broken = EntryPoint("mine", "no_such_package:Guide", "sage_cli.guides")
    monkeypatch.setattr("sage_cli.config.plugins.entry_points", lambda **_: (broken,))
    wanted = section(name="mine")
    with pytest.raises(ConfigurationError, match=r"no_such_package:Guide\) can't be imported"):
        build_guide(wanted)
    monkeypatch.setattr("sage_cli.config.plugins.entry_points", lambda **_: ())
    with pytest.raises(ConfigurationError, match="no installed package registers the guide 'mine'"):
        build_guide(wanted)
    # a finished run's configuration may be looked at without the package, not trained with
    stored = {"guide": {"name": "mine"}, "rl": {"advantage": "theirs"}}
    config = SageConfig.model_validate(stored, context=AS_STORED)
    assert (config.guide.name, config.rl.advantage) == ("mine", "theirs")
    with pytest.raises(ValidationError, match="unknown guide 'mine'"):
        SageConfig.model_validate(stored)
