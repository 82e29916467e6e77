"""What an accelerate configuration says of how a model is spread over processes."""

from __future__ import annotations

from pathlib import Path

from sage_cli.config.presets import accelerate_file, read_yaml
from sage_cli.errors import SageError

SHARDED = ("FSDP", "DEEPSPEED")
"""Types that spread one model over several processes."""


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
