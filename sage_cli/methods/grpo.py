"""GRPO: group-normalised advantages, the mean over each sequence."""

from __future__ import annotations

from typing import Literal

from sage_cli.methods.method import PlainAdvantages


class Grpo(PlainAdvantages):
    """GRPO (Shao et al. 2024)."""

    algo: Literal["grpo"] = "grpo"

    source = "Shao et al. 2024 (DeepSeekMath): group-normalised advantages, mean over each sequence"
