"""What can't be said beside methods that bring a loss or batches of their own: PACS, DARS, DPO."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from sage_cli.config.training import RlSection

UNREAD_BY_PACS = (
    "epsilon_low", "epsilon_high", "delta", "importance_sampling_level", "top_entropy_quantile",
    "overlong_punishment",
)  # fmt: skip
"""Settings of a policy term with advantages and ratios, which PACS doesn't have."""

UNREAD_BY_DPO = (
    *UNREAD_BY_PACS, "clip", "entropy_coefficient", "entropy_target", "dynamic_sampling", "dars",
    "reward", "iterations", "steps_per_generation",
)  # fmt: skip
"""Settings of policy gradients and of how batches are drawn for them."""


def against_pacs(rl: RlSection) -> list[str]:
    """Why PACS makes no sense with the other settings: what was set and would not be read."""
    if rl.loss != "pacs":
        return []
    return _unread(rl, UNREAD_BY_PACS, "neither clips nor reads advantages")


def against_dpo(rl: RlSection) -> list[str]:
    """The same of DPO."""
    if rl.loss != "dpo":
        return []
    return _unread(rl, UNREAD_BY_DPO, "compares pairs of completions that are drawn beforehand")


def _unread(rl: RlSection, names: tuple[str, ...], why: str) -> list[str]:
    fields = type(rl).model_fields
    unread = [
        f"{name} {value}" for name in names if (value := getattr(rl, name)) != fields[name].default
    ]
    if rl.advantage not in ("none", "group"):
        unread.append(f"advantage '{rl.advantage}'")
    if not unread:
        return []
    return [f"loss '{rl.loss}' {why}, and {', '.join(unread)} would do nothing (leave it out)"]


def against_dars(rl: RlSection) -> list[str]:
    """Why a second stage makes no sense with the other settings."""
    if rl.dars is None:
        return []
    found, group = [], rl.rollouts_per_prompt
    if group < 3:
        found.append(
            "dars tells hard prompts by their share of right rollouts, and rollouts_per_prompt "
            f"{group} gives shares of 0 and 1, or 1/2 between them (use more; 8 is usual)"
        )
    if rl.dars_most is not None and rl.dars_most <= group:
        found.append(
            f"dars_most {rl.dars_most} counts both stages, and the first alone has "
            f"rollouts_per_prompt {group}"
        )
    if rl.loss not in ("dr_grpo", "grpo") or rl.advantage != "none":
        found.append(
            "dars pools groups of unequal size, for which loss 'dr_grpo' or 'grpo' and advantage "
            f"'none' are made, not '{rl.loss}' and '{rl.advantage}' (use --algo dars)"
        )
    if rl.dynamic_sampling:
        found.append("dars gives hard prompts more rollouts, and dynamic_sampling replaces them")
    return found
