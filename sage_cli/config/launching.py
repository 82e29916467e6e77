"""What an accelerate configuration says of how a model is spread over processes."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from sage_cli.config.presets import accelerate_file, read_yaml
from sage_cli.errors import SageError

SHARDED = ("FSDP", "DEEPSPEED")
"""Types that spread one model over several processes."""
ZERO_3 = 3
ADAPTERS_UNDER_ZERO_3 = (
    "DeepSpeed's ZeRO stage 3 fails at the first step of adapters in float32 on a frozen model in "
    "bfloat16 (use --accelerate ddp, under which every GPU holds the frozen model; or fsdp2, or "
    "model.tuning=full)"
)


def distributed_type(file: Path) -> str:
    """The type that a configuration names, in capitals; NO where it names none."""
    return str(read_yaml(file).get("distributed_type", "NO")).upper()


def sharded_by(accelerate: str | None) -> str | None:
    """The type of `rl.accelerate` if it shards; None too where the file is to be refused later."""
    try:
        kind = distributed_type(accelerate_file(accelerate)) if accelerate else "NO"
    except (SageError, OSError):
        return None
    return kind if kind in SHARDED else None


def launch_problems(accelerate: str | None, processes: int, tuning: str) -> list[str]:
    """What stands against `rl.accelerate` for `rl.processes` and `model.tuning`, one sentence each.

    A broken file is refused later.
    """
    if accelerate is None:
        return []
    if processes == 1:
        return [
            f"rl.accelerate '{accelerate}' launches several processes, and rl.processes is 1 "
            "(use --processes N, one for each GPU)"
        ]
    try:
        settings = read_yaml(accelerate_file(accelerate))
    except (SageError, OSError):
        return []
    found = []
    meant, machines = _count(settings, "num_processes"), _count(settings, "num_machines")
    if meant not in (None, processes):
        found.append(
            f"rl.accelerate '{accelerate}' is for {meant} processes, and rl.processes is "
            f"{processes} (use --processes {meant}, or leave num_processes out of the file)"
        )
    if machines not in (None, 1):
        found.append(
            f"rl.accelerate '{accelerate}' is for {machines} machines, and --processes starts "
            "all of them on this one (use torchrun on each machine, as docs/scaling.md shows)"
        )
    if _zero_stage(settings) == ZERO_3 and tuning == "lora":
        found.append(f"rl.accelerate '{accelerate}': {ADAPTERS_UNDER_ZERO_3}")
    return found


def _zero_stage(settings: Mapping[str, Any]) -> int:
    inside = settings.get("deepspeed_config")
    return int(inside.get("zero_stage", 2)) if isinstance(inside, Mapping) else 0


def _count(settings: Mapping[str, Any], name: str) -> int | None:
    """A positive number that the file says; accelerate writes -1 where none is meant."""
    value = settings.get(name)
    return value if isinstance(value, int) and value > 0 else None
