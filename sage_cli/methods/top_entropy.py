"""DAPO on the fifth of tokens of highest entropy."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from sage_cli.methods.dapo import Dapo


class TopEntropy(Dapo):
    """The 80/20 rule (Wang et al. 2025): DAPO whose policy term leaves four fifths out."""

    algo: Literal["80-20"] = "80-20"  # type: ignore[assignment]
    top_entropy_quantile: float = Field(0.2, ge=0, le=1)

    source = "Wang et al. 2025 (arXiv 2506.01939): only the fifth of tokens of highest entropy"
    read_from = "secondary"
    differs = "the fifth is of a micro-batch"
