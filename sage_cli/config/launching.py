"""Conflicts of a launcher's sharding with the method and its settings."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from sage_cli.errors import SageError
from sage_cli.settings.presets import accelerate_file, read_yaml
from sage_cli.settings.sharding import FSDP_2, ZERO_3, Sharding, sharding_in

if TYPE_CHECKING:
    from sage_cli.methods.method import Method


def unfit_for(sharding: Sharding | None, rl: Method, tuning: str) -> list[str]:
    """Return what cannot be trained under this sharding, one sentence each."""
    found = []
    if sharding == Sharding("DEEPSPEED", ZERO_3) and tuning == "lora":
        found.append(
            "DeepSpeed's ZeRO stage 3 fails at the first step of adapters in float32 on a frozen "
            "model in bfloat16 (use --accelerate ddp, under which every GPU holds the frozen "
            "model; or fsdp2, or model.tuning=full)"
        )
    if sharding == Sharding("FSDP", FSDP_2) and rl.optimizer == "adamw_8bit":
        found.append(
            "rl.optimizer 'adamw_8bit' can't update weights that FSDP 2 shards: bitsandbytes fails "
            "at the first step (use --set rl.optimizer=adamw, whose state takes 8 bytes for each "
            "trained number, divided by the processes)"
        )
    if sharding is not None and sharding.kind == "DEEPSPEED" and rl.loss_in_parts:
        found.append(
            f"rl.algo '{rl.algo}' computes a step's loss in parts, and DeepSpeed updates the "
            "weights after each of them (use --accelerate fsdp2 or ddp)"
        )
    return found


def spread_over(processes: int, rl: Method) -> str | None:
    """The value of `rl.processes`, and what it takes beside it, that spreads a model by FSDP 2.

    None where the method needs the model in one piece.
    """
    if rl.needs_whole_model:
        return None
    also = "" if rl.optimizer == "adamw" else " and rl.optimizer=adamw"
    return f"{processes} with rl.accelerate=fsdp2{also}"


def launch_problems(rl: Method, tuning: str) -> list[str]:
    """Return the conflicts of `rl.accelerate` with `rl` and `model.tuning`, one sentence each.

    A broken file is refused later.
    """
    accelerate, processes = rl.accelerate, rl.processes
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
    unfit = unfit_for(sharding_in(settings), rl, tuning)
    return found + [f"rl.accelerate '{accelerate}': {sentence}" for sentence in unfit]


def _count(settings: Mapping[str, Any], name: str) -> int | None:
    """A positive number that the file says; accelerate writes -1 where none is meant."""
    value = settings.get(name)
    return value if isinstance(value, int) and value > 0 else None
