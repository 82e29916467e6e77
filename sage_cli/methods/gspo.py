"""GSPO: one ratio for a completion, the geometric mean of its tokens'."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from sage_cli.methods.method import PlainAdvantages


class Gspo(PlainAdvantages):
    """GSPO (Zheng et al. 2025)."""

    algo: Literal["gspo"] = "gspo"
    importance_sampling_level: Literal["token", "sequence"] = "sequence"
    epsilon_low: float = Field(3e-4, gt=0, le=1)
    epsilon_high: float = Field(4e-4, gt=0)
    steps_per_generation: int = Field(4, ge=1)

    source = "Zheng et al. 2025 (arXiv 2507.18071): one ratio for a completion, the tokens' mean"
    read_from = "secondary"
    kl_without_guide = "none"
