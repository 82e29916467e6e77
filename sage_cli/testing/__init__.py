"""The contracts of guides, methods and samplers, as test classes to inherit.

    from sage_cli.testing import GuideContract

    class TestMyGuide(GuideContract):
        def make(self) -> Guide:
            return MyGuide(strength=0.2)

pytest then runs the contract's tests on what `make` returns.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from sage_cli.testing.guides import GuideContract
    from sage_cli.testing.methods import MethodContract
    from sage_cli.testing.samplers import SamplerContract

__all__ = ["GuideContract", "MethodContract", "SamplerContract"]

_MODULES = {"GuideContract": "guides", "MethodContract": "methods", "SamplerContract": "samplers"}


def __getattr__(name: str) -> Any:
    """Import a contract when it is asked for: that of samplers needs no torch."""
    if name not in _MODULES:
        raise AttributeError(f"module '{__name__}' has no attribute '{name}'")
    return getattr(import_module(f"{__name__}.{_MODULES[name]}"), name)
