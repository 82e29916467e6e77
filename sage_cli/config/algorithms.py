"""The table of algorithms: what each `--algo` sets, as a layer just above the defaults."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class Algorithm:
    """One row: its source, the settings that make it up, its KL when no guide needs one."""

    source: str
    rl: dict[str, Any]
    kl_without_guide: str = "reverse"
    anchor: dict[str, Any] = field(default_factory=dict)


_WITHOUT = {
    "dynamic_sampling": False,
    "overlong_punishment": False,
    "reward": "verdict",
    "dars": None,
}
_ANCHOR_WITHOUT = {"schedule": "constant"}
"""Said by every row that doesn't have them, so that none is left over from another's choice."""

ALGORITHMS: dict[str, Algorithm] = {
    "grpo": Algorithm(
        "Shao et al. 2024 (DeepSeekMath): group-normalised advantages, mean over each sequence",
        {"loss": "grpo", "advantage": "group", "epsilon_high": 0.2},
    ),
    "bnpo": Algorithm(
        "the trainer library's bnpo, as in the paper: mean over the batch's active tokens",
        {"loss": "bnpo", "advantage": "group", "epsilon_high": 0.2},
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
        {"loss": "dr_grpo", "advantage": "none", "epsilon_high": 0.2},
    ),
    "annealed-kl": Algorithm(
        "Chen et al. 2025b (arXiv 2503.04548): GRPO whose beta falls to 0 on a cosine (theirs from "
        "1e-3: --beta 0.001)",
        {"loss": "grpo", "advantage": "group", "epsilon_high": 0.2},
        anchor={"schedule": "cosine"},
    ),
    "rlpr": Algorithm(
        "Yu et al. 2025 (arXiv 2506.18254): the gold's probability in the answer's place as "
        "reward, groups of little deviation left out",
        {"loss": "grpo", "advantage": "group", "epsilon_high": 0.27, "reward": "probability"},
        kl_without_guide="none",
    ),
    "dars": Algorithm(
        "Yang et al. 2025 (arXiv 2508.13755): hard prompts get a second stage of rollouts (ET, up "
        "to 32), rewards less their pool's mean; rl.dars=hw for the harder weighing",
        {"loss": "dr_grpo", "advantage": "none", "epsilon_high": 0.2, "dars": "et"},
        kl_without_guide="none",
    ),
    "pacs": Algorithm(
        "Li et al. 2025 (arXiv 2509.02522): verdicts as labels of the policy's log-ratios, a "
        "cross-entropy over each group; no advantages, no clipping",
        {"loss": "pacs", "advantage": "none", "epsilon_high": 0.2},
        kl_without_guide="none",
    ),
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
