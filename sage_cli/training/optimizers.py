"""The optimisers by name, and whether this machine has what they need; loads no torch by itself."""

from __future__ import annotations

from importlib.util import find_spec

from sage_cli.errors import ConfigurationError
from sage_cli.settings.sections.training import Optimizer

_NAMES = {"adamw": "adamw_torch_fused", "adamw_8bit": "adamw_8bit"}


def optimizer_name(requested: Optimizer) -> str:
    """Return the trainer's name for it."""
    return _NAMES[requested]


def scheduler_name(requested: str) -> str:
    """The trainer's name for RL's schedule, which warms up whatever follows."""
    return "constant_with_warmup" if requested == "constant" else requested


def require_optimizer(requested: Optimizer, setting: str) -> None:
    """Refuse what `setting` names where it can't run, before any model is loaded.

    Raises ConfigurationError.
    """
    if requested != "adamw_8bit":
        return
    instead = f"use --set {setting}=adamw, whose state takes four times the memory"
    if find_spec("bitsandbytes") is None:
        raise ConfigurationError(
            f"{setting} is 'adamw_8bit', which needs the package bitsandbytes, and it isn't "
            "installed",
            f"pip install 'sage-rlvr[8bit]', or {instead}",
        )
    import torch

    if not torch.cuda.is_available():
        raise ConfigurationError(
            f"{setting} is 'adamw_8bit', which needs a GPU, and this machine has none", instead
        )
