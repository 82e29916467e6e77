"""Divergences and advantages: pure functions on tensors."""

from sage_cli.objectives.advantage import (
    Advantage,
    AdvantageFunction,
    AdvantageInputs,
    ShapedAdvantage,
    Update,
)
from sage_cli.objectives.advantages import beta_advantages, centred_advantages, group_advantages
from sage_cli.objectives.build import build_advantage
from sage_cli.objectives.divergences import (
    forward_cross_entropy,
    k3,
    k3_corrected,
    log_ratio,
    reward_to_go,
)

__all__ = [
    "Advantage",
    "AdvantageFunction",
    "AdvantageInputs",
    "ShapedAdvantage",
    "Update",
    "beta_advantages",
    "build_advantage",
    "centred_advantages",
    "forward_cross_entropy",
    "group_advantages",
    "k3",
    "k3_corrected",
    "log_ratio",
    "reward_to_go",
]
