"""A method's training is the module that its class names, of this package or of another one."""

import sys
from types import ModuleType, SimpleNamespace
from typing import Literal

from sage_cli.methods.method import Method
from sage_cli.progress import Silent
from sage_cli.training import training


class Mine(Method):
    algo: Literal["mine"] = "mine"
    trained_by = "my_package.training"


def test_the_named_module_trains(monkeypatch):
    given = []
    module = ModuleType("my_package.training")
    module.train = lambda *arguments: given.extend(arguments)
    monkeypatch.setitem(sys.modules, "my_package", ModuleType("my_package"))
    monkeypatch.setitem(sys.modules, "my_package.training", module)
    job = SimpleNamespace(config=SimpleNamespace(rl=Mine()))
    run = object()
    training.train(job, run, None, Silent())
    assert given[:2] == [job, run]
