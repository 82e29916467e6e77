"""Read how an accelerate configuration spreads a model over processes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sage_cli.errors import SageError
from sage_cli.settings.shipped import shipped_or_path
from sage_cli.settings.yaml_files import read_yaml

SHARDED = ("FSDP", "DEEPSPEED")
"""Types that spread one model over several processes."""
ZERO_3, FSDP_2 = 3, 2


@dataclass(frozen=True)
class Sharding:
    """The way a launcher shards a model.

    `kind` is one of SHARDED, `level` the version of FSDP or the stage of ZeRO.
    """

    kind: str
    level: int


def accelerate_file(name: str) -> Path:
    """Return the accelerate configuration called `name`: a shipped one, or a file by its path."""
    return shipped_or_path("configs/accelerate", name, "accelerate configuration")


def distributed_type(settings: Mapping[str, Any]) -> str:
    """Return the type that an accelerate configuration names, in capitals; NO without one."""
    return str(settings.get("distributed_type", "NO")).upper()


def sharding_of(accelerate: str | None) -> Sharding | None:
    """Return the sharding of `rl.accelerate`; None if it has none, or if its file is broken."""
    try:
        settings = read_yaml(accelerate_file(accelerate)) if accelerate else {}
    except (SageError, OSError):
        return None
    kind = distributed_type(settings)
    if kind not in SHARDED:
        return None
    section, level, default = {
        "FSDP": ("fsdp_config", "fsdp_version", 1),
        "DEEPSPEED": ("deepspeed_config", "zero_stage", 2),
    }[kind]
    inside = settings.get(section)
    level_set = inside.get(level, default) if isinstance(inside, Mapping) else default
    return Sharding(kind, int(level_set) if str(level_set).isdigit() else default)
