"""The advantages that come with sage, by the name in `rl.advantage`."""

from __future__ import annotations

from collections.abc import Callable

from torch import Tensor

from sage_cli.objectives.advantage import ShapedAdvantage
from sage_cli.objectives.advantages import beta, group, none
from sage_cli.objectives.best_of_k import pass_at_k, pkpo
from sage_cli.objectives.covariance import clip_cov, kl_cov
from sage_cli.objectives.effective_rank import verl
from sage_cli.objectives.entropy_shaping import entropy_shaped, steer

BUILT_IN: dict[str, Callable[..., Tensor] | ShapedAdvantage] = {
    "group": group,
    "none": none,
    "beta": beta,
    "pass-at-k": pass_at_k,
    "pkpo": pkpo,
    "entropy-shaped": ShapedAdvantage(group, entropy_shaped),
    "steer": ShapedAdvantage(group, steer, reads_old_entropy=True),
    "clip-cov": ShapedAdvantage(group, clip_cov),
    "kl-cov": ShapedAdvantage(group, kl_cov),
    "verl": verl,
}
"""Functions with their options (`sage_cli.config.advantages`) as keywords."""
