"""A method's training is the module that its class names, of this package or of another one."""

from __future__ import annotations

import sys
from types import ModuleType, SimpleNamespace
from typing import Any, Literal

import pytest

from sage_cli.methods.method import Method
from sage_cli.progress import Silent
from sage_cli.training import training


class Mine(Method):
    algo: Literal["mine"] = "mine"
    trained_by = "my_package.training"


def test_the_named_module_trains(monkeypatch: pytest.MonkeyPatch):
    given: list[Any] = []
    module: Any = ModuleType("my_package.training")
    module.train = lambda *arguments: given.extend(arguments)
    monkeypatch.setitem(sys.modules, "my_package", ModuleType("my_package"))
    monkeypatch.setitem(sys.modules, "my_package.training", module)
    job: Any = SimpleNamespace(config=SimpleNamespace(rl=Mine()))
    run: Any = object()
    training.train(job, run, None, Silent())
    assert given[:2] == [job, run]
