"""The table of algorithms: what each `--algo` sets, as a layer just above the defaults."""

from __future__ import annotations

from typing import Any

from sage_cli.config.algorithm import Algorithm
from sage_cli.config.exploration import EXPLORATION

_WITHOUT: dict[str, Any] = {
    "dynamic_sampling": False,
    "overlong_punishment": False,
    "reward": "verdict",
    "dars": None,
    "clip": True,
    "epsilon_low": 0.2,
    "epsilon_high": 0.2,
    "delta": None,
    "importance_sampling_level": "token",
    "entropy_coefficient": 0.0,
    "entropy_target": None,
    "top_entropy_quantile": 1.0,
    "steps_per_generation": 1,
}
_ANCHOR_WITHOUT: dict[str, Any] = {"schedule": "constant"}
"""Said by every row that doesn't have them, so that none is left over from another's choice."""

ALGORITHMS: dict[str, Algorithm] = {
    "grpo": Algorithm(
        "Shao et al. 2024 (DeepSeekMath): group-normalised advantages, mean over each sequence",
        {"loss": "grpo", "advantage": "group"},
    ),
    "bnpo": Algorithm(
        "the trainer library's bnpo, as in the paper: mean over the batch's active tokens",
        {"loss": "bnpo", "advantage": "group"},
        read="code",
    ),
    "dapo": Algorithm(
        "Yu et al. 2025: token-level loss, clip-higher, dynamic sampling, soft overlong punishment",
        {
            "loss": "dapo",
            "advantage": "group",
            "epsilon_high": 0.28,
            "dynamic_sampling": True,
            "overlong_punishment": True,
        },
        kl_without_guide="none",
    ),
    "dr-grpo": Algorithm(
        "Liu et al. 2025: centred advantages without scaling, a constant length normaliser",
        {"loss": "dr_grpo", "advantage": "none"},
    ),
    **EXPLORATION,
}


def algorithm_settings(name: str) -> dict[str, Any]:
    """The `rl` settings that make up algorithm `name`."""
    return {**_WITHOUT, **ALGORITHMS[name].rl}


def algorithm_layer(name: str) -> dict[str, dict[str, Any]]:
    """All settings that make up algorithm `name`, by section."""
    return {
        "rl": algorithm_settings(name),
        "anchor": {**_ANCHOR_WITHOUT, **ALGORITHMS[name].anchor},
    }


def kl_of(name: str, *, guided: bool) -> str:
    """The divergence an algorithm uses unless told: a guide always brings the KL it reshapes."""
    return "reverse" if guided else ALGORITHMS[name].kl_without_guide
