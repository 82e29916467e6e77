"""Estimators of the divergence from the anchor, and its schedule: pure functions on tensors."""

from sage_cli.objectives.anchored_rows import anchored_rows, equal_rows
from sage_cli.objectives.divergences import (
    forward_cross_entropy,
    k3,
    k3_corrected,
    log_ratio,
    reward_to_go,
)
from sage_cli.objectives.head import as_k3, head_kl

__all__ = [
    "anchored_rows",
    "as_k3",
    "equal_rows",
    "forward_cross_entropy",
    "head_kl",
    "k3",
    "k3_corrected",
    "log_ratio",
    "reward_to_go",
]
