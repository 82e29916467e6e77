"""DAPO: token-level loss, clip-higher, dynamic sampling, soft overlong punishment."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from sage_cli.methods.method import Loss, PlainAdvantages


class Dapo(PlainAdvantages):
    """DAPO (Yu et al. 2025)."""

    algo: Literal["dapo"] = "dapo"
    loss: Loss = "dapo"
    epsilon_high: float = Field(0.28, gt=0)
    dynamic_sampling: bool = True
    overlong_buffer: float | None = Field(0.2, gt=0, lt=1)

    source = (
        "Yu et al. 2025: token-level loss, clip-higher, dynamic sampling, soft overlong punishment"
    )
    kl_without_guide = "none"
