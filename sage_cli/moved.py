"""The contracts of extensions, importable from where they were with a notice."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from importlib import import_module
from typing import Any

HOME = "sage_cli.testing"


def moved_contract(module: str, name: str) -> Callable[[str], Any]:
    """Return the `__getattr__` of `module`, where the contract `name` was.

    It imports the contract only when that is asked for, and raises AttributeError for other names.
    """

    def find(asked: str) -> Any:
        if asked != name:
            raise AttributeError(f"module '{module}' has no attribute '{asked}'")
        warnings.warn(
            f"from {HOME} import {name}: the contracts are there now", FutureWarning, stacklevel=2
        )
        return getattr(import_module(HOME), name)

    return find
