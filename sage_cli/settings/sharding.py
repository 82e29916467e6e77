"""Reads from an accelerate configuration how a model is sharded over processes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sage_cli.errors import SageError
from sage_cli.settings.presets import accelerate_file, read_yaml

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


def distributed_type(file: Path) -> str:
    """Return the type that a configuration names, in capitals; NO where it names none."""
    return _type(read_yaml(file))


def _type(settings: Mapping[str, Any]) -> str:
    return str(settings.get("distributed_type", "NO")).upper()


def sharded_by(accelerate: str | None) -> str | None:
    """Return the type of `rl.accelerate` if it shards; None if not or if the file is broken."""
    try:
        kind = distributed_type(accelerate_file(accelerate)) if accelerate else "NO"
    except (SageError, OSError):
        return None
    return kind if kind in SHARDED else None


def sharding_in(settings: Mapping[str, Any]) -> Sharding | None:
    """Return the sharding of an accelerate configuration; None if it has none."""
    kind = _type(settings)
    if kind not in SHARDED:
        return None
    section, level, default = {
        "FSDP": ("fsdp_config", "fsdp_version", 1),
        "DEEPSPEED": ("deepspeed_config", "zero_stage", 2),
    }[kind]
    inside = settings.get(section)
    level_set = inside.get(level, default) if isinstance(inside, Mapping) else default
    return Sharding(kind, int(level_set))
