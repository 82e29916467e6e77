"""DARS: hard prompts get a second stage of rollouts."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

from pydantic import Field

from sage_cli.methods.method import Beside
from sage_cli.methods.policy_gradient import Loss, PolicyGradient

if TYPE_CHECKING:
    from sage_cli.methods.parts.hooks import Hooks, Setup

MOST = {"et": 32, "hw": 64}
"""Rollouts of a prompt in both stages together, as the authors have it."""


class Dars(PolicyGradient):
    """DARS (Yang et al. 2025). Advantages are rewards less the mean of both stages."""

    algo: Literal["dars"] = "dars"
    loss: Loss = "dr_grpo"
    allocation: Literal["et", "hw"] = "et"
    """Rollouts for prompts that fewer than half of the first solve: `et` until their advantages
    weigh as much as those of a prompt at one half, `hw` more, the harder."""
    most_rollouts: int | None = Field(None, ge=2)
    """Rollouts of a prompt in both stages; null is the authors' 32 for `et`, 64 for `hw`."""

    source = (
        "Yang et al. 2025 (arXiv 2508.13755): hard prompts get a second stage of rollouts (ET, up "
        "to 32; rl.allocation=hw weighs the hardest more), rewards less their pool's mean"
    )
    read_from = "code"
    kl_without_guide = "none"
    loss_in_parts = True

    @property
    def computed_by_trl(self) -> Literal["none"]:
        """The first stage's, which pools replace."""
        return "none"

    def hooks(self, setup: Setup) -> Hooks:
        """Return what samples the second stage."""
        from sage_cli.methods.dars.second_stage import SecondStage

        return SecondStage(self, setup)

    def refusals(self, beside: Beside) -> list[str]:
        """Return the conflicts with settings that need groups of equal size."""
        found, group = super().refusals(beside), self.rollouts_per_prompt
        if group < 3:
            found.append(
                "rl.algo 'dars' tells hard prompts by their share of right rollouts, and "
                f"rl.rollouts_per_prompt {group} gives shares of 0 and 1, or 1/2 between them (use "
                "more; 8 is usual)"
            )
        if self.most_rollouts is not None and self.most_rollouts <= group:
            found.append(
                f"rl.most_rollouts {self.most_rollouts} counts both stages, and the first alone "
                f"has rl.rollouts_per_prompt {group}"
            )
        if self.loss not in ("dr_grpo", "grpo"):
            found.append(
                "rl.algo 'dars' pools groups of unequal size, for which rl.loss 'dr_grpo' or "
                f"'grpo' are made, not '{self.loss}'"
            )
        if self.dynamic_sampling:
            found.append(
                "rl.algo 'dars' gives hard prompts more rollouts, and rl.dynamic_sampling replaces "
                "them"
            )
        if beside.rollout.may_use_vllm and beside.rollout.vllm.mode == "server":
            found.append(
                "rl.algo 'dars' samples unequal numbers of completions of a prompt, and a vLLM "
                "server is asked for equal ones (use rollout.vllm.mode=colocate or "
                "rollout.backend=transformers)"
            )
        if beside.anchor.kl == "forward":
            found.append(
                "rl.algo 'dars' has batches of unequal size, and forward KL takes the reference's "
                "completions row by row in turn (use --kl reverse or none)"
            )
        return found

    def describe(self) -> dict[str, Any]:
        """The second stage."""
        return {**super().describe(), "second stage": self.allocation}
