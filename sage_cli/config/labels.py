"""What runs are called, from their settings."""

from __future__ import annotations

from pathlib import Path

from sage_cli.config.model import ScratchModel
from sage_cli.config.schema import SageConfig

_HELD_BY = {"reverse": "kl", "forward": "forward-kl", "none": "no-kl"}


def base_label(config: SageConfig) -> str:
    """What a base is called: its model, or for one from scratch what it is taught."""
    if isinstance(config.model, ScratchModel):
        return Path(config.data.sft.name).stem.lower()
    return Path(config.model.path).name.lower()


def rl_label(config: SageConfig) -> str:
    """Algorithm and what holds the policy: a guide's name, `kl`, `forward-kl` or `no-kl`."""
    guide = config.guide.name
    return f"{config.rl.algo}-{guide if guide != 'none' else _HELD_BY[config.anchor.kl]}"
