"""From `rl.advantage` to an advantage; plug-ins that are none, or give nonsense, are named."""

from __future__ import annotations

from collections.abc import Callable
from importlib.metadata import EntryPoint
from typing import Any

import pytest
import torch
from torch import Tensor

from sage_cli.errors import ConfigurationError, TrainingError
from sage_cli.objectives import (
    AdvantageInputs,
    beta_advantages,
    build_advantage,
    centred_advantages,
    group_advantages,
)

REWARDS_PN = torch.tensor([[1.0, 0.0, 0.0], [1.0, 1.0, 0.0], [0.0, 0.0, 0.0]])


def inputs() -> AdvantageInputs:
    mask_BT = torch.ones(9, 2)
    signals = (torch.zeros(9, 2), torch.zeros(9, 2))
    return AdvantageInputs(REWARDS_PN - 0.1, REWARDS_PN, mask_BT, 4, 10, lambda: signals)


def scaled(inputs: AdvantageInputs, *, scale: float, shift: float = 0.0) -> Tensor:
    return scale * inputs.right_PN.flatten() + shift


def broken(inputs: AdvantageInputs, *, value: float = torch.nan) -> Tensor:
    return torch.tensor([0.0, value, 0.0] * 3)


class Advantage:
    pass


PACKAGE = {"scaled": scaled, "broken": broken, "number": 3, "Advantage": Advantage}
PACKAGE |= {"flat": lambda inputs: inputs.rewards_PN, "list": lambda inputs: [0.0] * 9}


@pytest.fixture
def register(monkeypatch: pytest.MonkeyPatch) -> Callable[[str], None]:
    def put(name: str) -> None:
        point = EntryPoint("mine", f"package:{name}", "sage_cli.advantages")
        monkeypatch.setattr("sage_cli.config.plugins.entry_points", lambda **_: (point,))
        monkeypatch.setattr(EntryPoint, "load", lambda self: PACKAGE[self.attr])

    return put


def test_each_name_gives_its_advantage():
    # beta is of verdicts, the others of rewards, which punishments may have shifted
    expected = {
        "group": group_advantages(REWARDS_PN - 0.1),
        "none": centred_advantages(REWARDS_PN - 0.1),
        "beta": beta_advantages(REWARDS_PN),
    }
    for name, values_PN in expected.items():
        assert torch.equal(build_advantage(name, {})(inputs()), values_PN.flatten())


def test_a_plugin_is_called_with_its_options(register: Callable[[str], None]):
    register("scaled")
    found = build_advantage("mine", {"scale": 2.0, "shift": 1.0})(inputs())
    assert found.tolist() == [3, 1, 1, 3, 3, 1, 1, 1, 1]


@pytest.mark.parametrize(
    ("name", "options", "complaint"),
    [
        ("number", {}, "is 3, which is no function"),
        ("Advantage", {}, "which is no function"),
        ("scaled", {"scale": 1, "shfit": 2}, "options scale=1, shfit=2: .*unexpected keyword"),
        ("scaled", {}, r"options \(none\): TypeError: missing .*'scale'"),
    ],
)
def test_a_plugin_that_cannot_be_called_is_named(
    register: Callable[[str], None], name: str, options: dict[str, Any], complaint: str
):
    register(name)
    with pytest.raises(ConfigurationError, match=rf"'mine' \(package:{name}\) .*{complaint}"):
        build_advantage("mine", options)


@pytest.mark.parametrize(
    ("name", "options", "complaint"),
    [
        ("flat", {}, r"gives \(3, 3\) for a batch of 9 completions, 2 tokens long"),
        ("list", {}, "gives a list for a batch"),
        ("broken", {}, "gives NaN or infinity at 3 of 9 places in step 4"),
        ("broken", {"value": torch.inf}, "gives NaN or infinity at 3 of 9"),
    ],
)
def test_what_it_gives_is_checked(
    register: Callable[[str], None], name: str, options: dict[str, Any], complaint: str
):
    register(name)
    with pytest.raises(TrainingError, match=rf"'mine' \(package:{name}\) {complaint}"):
        build_advantage("mine", options)(inputs())


def failing(inputs: AdvantageInputs) -> Tensor:
    return inputs.rewards_PN.flatten() @ inputs.mask_BT.T


def test_what_raises_inside_is_named_with_its_line(monkeypatch: pytest.MonkeyPatch):
    point = EntryPoint("mine", f"{failing.__module__}:failing", "sage_cli.advantages")
    monkeypatch.setattr("sage_cli.config.plugins.entry_points", lambda **_: (point,))
    monkeypatch.setattr(EntryPoint, "load", lambda self: failing)
    line = failing.__code__.co_firstlineno + 1
    said = rf"'mine' \(.*:failing\) fails: RuntimeError: .* \(test_build.py, line {line}\)$"
    with pytest.raises(ConfigurationError, match=said):
        build_advantage("mine", {})(inputs())


def test_signals_are_read_once_and_only_where_they_are_asked_for():
    read = []

    def signals() -> tuple[Tensor, Tensor]:
        read.append(1)
        return torch.zeros(9, 2), torch.ones(9, 2)

    given = AdvantageInputs(REWARDS_PN, REWARDS_PN, torch.ones(9, 2), 0, 1, signals)
    build_advantage("group", {})(given)
    assert read == []
    assert (given.logps_BT.sum(), given.entropy_BT.sum(), len(read)) == (0, 18, 1)
