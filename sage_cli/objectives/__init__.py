"""Estimators of the divergence from the anchor, and its schedule: pure functions on tensors."""

from sage_cli.objectives.anchored_rows import anchored_rows, equal_rows
from sage_cli.objectives.divergences import (
    forward_cross_entropy,
    k3,
    k3_corrected,
    log_ratio,
    reward_to_go,
)

__all__ = [
    "anchored_rows",
    "equal_rows",
    "forward_cross_entropy",
    "k3",
    "k3_corrected",
    "log_ratio",
    "reward_to_go",
]
