"""Dr. GRPO: centred advantages without scaling, a constant length normaliser."""

from __future__ import annotations

from typing import Literal

from sage_cli.methods.method import Loss, PlainAdvantages


class DrGrpo(PlainAdvantages):
    """Dr. GRPO (Liu et al. 2025)."""

    algo: Literal["dr-grpo"] = "dr-grpo"
    loss: Loss = "dr_grpo"
    advantage: Literal["group", "none", "beta"] = "none"

    source = "Liu et al. 2025: centred advantages without scaling, a constant length normaliser"
