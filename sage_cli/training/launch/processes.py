"""Several processes that train together: whether this is one of them, and how they meet."""

from __future__ import annotations

import os
from datetime import timedelta
from typing import TYPE_CHECKING

from sage_cli.config.launching import unfit_for
from sage_cli.errors import ConfigurationError, TrainingError
from sage_cli.methods.method import Method
from sage_cli.settings.sharding import Sharding

if TYPE_CHECKING:
    from accelerate import PartialState

PATIENCE = timedelta(days=1)
"""How long processes wait for one that trains the base before they train together."""
PROCESSES_VARIABLE = "SAGE_PROCESSES"
"""Tells a launched process how many it was meant to be one of."""


def world_size() -> int:
    """Return the number of processes that train together, as the launcher says."""
    return int(os.environ.get("WORLD_SIZE", "1"))


def is_launched() -> bool:
    """Return True if a launcher started this process, so nothing is launched again."""
    return "LOCAL_RANK" in os.environ and "WORLD_SIZE" in os.environ


def require_all_processes() -> None:
    """Raise TrainingError in a process that was to be one of several and is fewer of them."""
    meant = int(os.environ.get(PROCESSES_VARIABLE, world_size()))
    if world_size() != meant:
        raise TrainingError(
            f"the launcher started {world_size()} of {meant} processes: alone, they would train "
            "another run than the one asked for",
            "use another --accelerate configuration, or --processes N alone",
        )


def require_fit(rl: Method, tuning: str) -> None:
    """Raise ConfigurationError under a launcher whose sharding can't train `rl` and `tuning`."""
    if unfit := unfit_for(_launchers_sharding(), rl, tuning):
        raise ConfigurationError("\n".join(unfit))


def _launchers_sharding() -> Sharding | None:
    """Return the sharding that accelerate states in the environment of its processes."""
    if _launcher_says("ACCELERATE_USE_DEEPSPEED"):
        return Sharding("DEEPSPEED", int(os.environ.get("ACCELERATE_DEEPSPEED_ZERO_STAGE", "2")))
    if _launcher_says("ACCELERATE_USE_FSDP"):
        return Sharding("FSDP", int(os.environ.get("FSDP_VERSION", "1")))
    return None


def require_alone(rl: Method) -> None:
    """Raise ConfigurationError in one of several processes where the method is trained in one."""
    if rl.trains_alone and world_size() > 1:
        raise ConfigurationError(
            f"rl.algo '{rl.algo}' trains in one process, and a launcher started {world_size()}",
            "type the command without the launcher",
        )


def holds_all_weights() -> bool:
    """Return True if this process holds the whole model, not a shard."""
    return not any(map(_launcher_says, ("ACCELERATE_USE_FSDP", "ACCELERATE_USE_DEEPSPEED")))


def _launcher_says(variable: str) -> bool:
    return os.environ.get(variable, "false").lower() == "true"


def processes_here(meant: int) -> int:
    """Return the number of training processes on this machine; `meant` before they are launched."""
    return int(os.environ.get("LOCAL_WORLD_SIZE", world_size())) if is_launched() else meant


def join_processes() -> PartialState:
    """This process's place among those launched with it; on CPUs they talk over gloo."""
    import torch
    from accelerate import PartialState

    return PartialState(cpu=not torch.cuda.is_available(), timeout=PATIENCE)
