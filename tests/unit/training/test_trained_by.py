"""A method's training is the module that its class names, of this package or of another one."""

from __future__ import annotations

import sys
from types import ModuleType, SimpleNamespace
from typing import Any, Literal

import pytest

from sage_cli.methods.grpo import Grpo
from sage_cli.methods.guided_dpo import GuidedDpo
from sage_cli.methods.method import Method
from sage_cli.progress import Silent
from sage_cli.training import guided_retries, training
from sage_cli.training import rl as reward_training


class Mine(Method):
    algo: Literal["mine"] = "mine"
    trained_by = "my_package.training"


def trained(rl: Method) -> list[Any]:
    """Train by what the method names; return what the module was given."""
    job: Any = SimpleNamespace(config=SimpleNamespace(rl=rl))
    run: Any = object()
    training.train(job, run, None, Silent())
    return [job, run]


def test_the_named_module_trains(monkeypatch: pytest.MonkeyPatch):
    given: list[Any] = []
    module: Any = ModuleType("my_package.training")
    module.train = lambda *arguments: given.extend(arguments)
    monkeypatch.setitem(sys.modules, "my_package", ModuleType("my_package"))
    monkeypatch.setitem(sys.modules, "my_package.training", module)
    known = trained(Mine())
    assert given[:2] == known


@pytest.mark.parametrize(
    ("rl", "module"), [(Grpo(), reward_training), (GuidedDpo(), guided_retries)]
)
def test_methods_of_this_package_name_theirs(
    monkeypatch: pytest.MonkeyPatch, rl: Method, module: Any
):
    given: list[Any] = []
    monkeypatch.setattr(module, "train", lambda *arguments: given.extend(arguments))
    known = trained(rl)
    assert given[:2] == known
