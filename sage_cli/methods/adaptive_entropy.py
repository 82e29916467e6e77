"""An entropy bonus whose weight is adapted so that the entropy stays up."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from sage_cli.methods.method import PlainAdvantages


class AdaptiveEntropy(PlainAdvantages):
    """Skywork-OR1's bonus (He et al. 2025) on GRPO."""

    algo: Literal["adaptive-entropy"] = "adaptive-entropy"
    entropy_target: float | None = Field(0.2, gt=0)

    source = "Skywork-OR1 (He et al. 2025, arXiv 2505.22312): a bonus that holds the entropy up"
    read_from = "secondary"
    differs = "the bonus alone, on GRPO"
