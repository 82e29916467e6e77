"""GRPO whose KL weight falls to 0 over the training."""

from __future__ import annotations

from typing import Literal

from sage_cli.methods.method import PlainAdvantages


class AnnealedKl(PlainAdvantages):
    """GRPO under `anchor.schedule=cosine` (Chen et al. 2025b)."""

    algo: Literal["annealed-kl"] = "annealed-kl"

    source = "Chen et al. 2025b (arXiv 2503.04548): GRPO whose beta falls to 0 on a cosine"
    differs = "beta starts at anchor.beta, theirs at 1e-3"
    anchored = {"schedule": "cosine"}  # noqa: RUF012
