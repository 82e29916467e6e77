"""Where `MethodContract` was: it is in `sage_cli.testing`."""

from __future__ import annotations

import warnings
from importlib import import_module
from typing import Any


def __getattr__(name: str) -> Any:
    """Return the contract from where it is now, with a notice."""
    if name != "MethodContract":
        raise AttributeError(f"module '{__name__}' has no attribute '{name}'")
    warnings.warn(
        "from sage_cli.testing import MethodContract: the contracts are there now",
        FutureWarning,
        stacklevel=2,
    )
    return getattr(import_module("sage_cli.testing"), name)
