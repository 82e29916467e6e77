"""Labels of runs, made from their settings."""

from __future__ import annotations

from pathlib import Path

from sage_cli.config.specs import RlSpec, SftSpec
from sage_cli.settings.sections.model import ScratchModel

_HELD_BY = {"reverse": "kl", "forward": "forward-kl", "none": "no-kl"}


def base_label(recipe: SftSpec) -> str:
    """Return the label of an initial policy: its model, or its task for one from scratch."""
    if isinstance(recipe.model, ScratchModel):
        return Path(recipe.data.sft.name).stem.lower()
    return Path(recipe.model.path).name.lower()


def rl_label(recipe: RlSpec) -> str:
    """Algorithm and what holds the policy: a guide's name, `kl`, `forward-kl` or `no-kl`."""
    guide = recipe.guide.name
    return f"{recipe.rl.algo}-{guide if guide != 'none' else _HELD_BY[recipe.anchor.kl]}"
