"""The settings and hooks of methods that learn from completions of the policy as it stands."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar, Literal

from pydantic import Field

from sage_cli.methods.method import Beside, Method
from sage_cli.settings.base import WHERE_SET
from sage_cli.settings.sections.rewards import (
    GRADE,
    THE_GRADE,
    Rewards,
    are_usual,
    in_words,
    reward_problems,
)

if TYPE_CHECKING:
    from torch import Tensor

    from sage_cli.methods.parts.hooks import Hooks, Setup
    from sage_cli.methods.parts.inputs import AdvantageInputs, Update


class OnlineMethod(Method):
    """Settings of methods that learn from completions of the policy as it stands.

    `shapes_tokens`: the method overrides `shape`, so that each token has an advantage of its own in
    every update. `reads_old_entropy`: its shape reads the entropies of the policy that sampled.
    """

    rewards: Rewards = Field(THE_GRADE, json_schema_extra=WHERE_SET)
    """What a completion is paid: a list of {name, weight, timeout_s}, whose weighted sum is
    maximised. A name is `grade`, `format`, `brevity`, one that a package registers, or a function
    of one's own, as `mine.py:concise` or `package.module:concise`."""
    iterations: int = Field(1, ge=1)
    """Optimisation passes over one generation batch (the paper's and TRL's mu)."""
    steps_per_generation: int = Field(1, ge=1)
    """Optimiser steps whose completions are sampled together, before the first of them."""
    dynamic_sampling: bool = False
    """Replace groups whose completions all have one reward (DAPO)."""
    max_extra_generations: int = Field(3, ge=0)
    """Dynamic sampling: generations beyond the first that a step may spend on replacing groups."""
    entropy_coefficient: float = Field(0.0, ge=0)
    """Bonus on the mean entropy of the completions' tokens, in the loss's units for each nat."""
    entropy_target: float | None = Field(None, gt=0)
    """Adapts `entropy_coefficient`, within [0, 1], to a mean entropy of so many nats: after each
    step it goes up by `entropy_coefficient_step` where the entropy is at most that, else down; and
    there is a bonus only where the last step's was at most that (Skywork-OR1)."""
    entropy_coefficient_step: float = Field(0.005, gt=0, le=1)
    """By how much an adaptive coefficient goes up or down in a step; see `entropy_target`."""

    cast_lm_head_to_fp32: bool = Field(False, json_schema_extra=WHERE_SET)
    """Compute logits in float32 where the rest is in bfloat16 (TRL's setting of that name)."""

    online = True
    shapes_tokens: ClassVar[bool] = False
    reads_old_entropy: ClassVar[bool] = False

    def advantages(self, inputs: AdvantageInputs) -> Tensor:
        """Return advantages (B,) or (B, T) of a generation batch: the group's."""
        from sage_cli.methods.parts.formulas import group_advantages

        return group_advantages(inputs.rewards_PN).flatten()

    def shape(self, update: Update) -> Tensor:
        """Return advantages (B, T) in one update of a micro-batch; with `shapes_tokens` alone.

        They may carry a gradient: the loss of a token is -ratio x advantage where nothing is
        clipped, so that any loss of its own, L, is the advantage -L / ratio under `rl.clip=false`.
        """
        return update.advantages_BT

    @property
    def computed_by_trl(self) -> Literal["group", "none"] | None:
        """Return TRL's name of the advantages; None if the method computes its own."""
        return "none"

    @property
    def clip_range(self) -> tuple[float, float] | None:
        """Return the clip range below and above 1; None if the ratio is not clipped."""
        return None

    @property
    def paid(self) -> Rewards:
        """`rewards`."""
        return self.rewards

    @property
    def punished_share(self) -> float | None:
        """Share of the longest length over which a punishment grows; None where none does."""
        return None

    @property
    def steps_per_batch(self) -> int:
        """Optimiser steps from one generation of completions to the next."""
        return self.iterations * self.steps_per_generation

    @property
    def passes(self) -> int:
        """Optimisation passes over one generation of completions."""
        return self.iterations

    @property
    def prompts_per_batch(self) -> int:
        """Problems whose completions are sampled together, before the first step on them."""
        return self.prompts_per_step * self.steps_per_generation

    @property
    def replaces_prompts(self) -> bool:
        """Return True if a step may come to other problems than those in its place in order."""
        return self.dynamic_sampling

    def hooks(self, setup: Setup) -> Hooks:
        """Return what the method does within one training, besides its formulas."""
        from sage_cli.methods.parts.hooks import Hooks

        return Hooks(self, setup)

    def trl_arguments(self) -> dict[str, Any]:
        """Return the method's part of the arguments of TRL's GRPOTrainer."""
        return {
            "num_iterations": self.iterations,
            "loss_type": "grpo",
            "scale_rewards": "none",
            "epsilon": 0.2,
            "epsilon_high": 0.2,
            "delta": None,
            "importance_sampling_level": "token",
            "top_entropy_quantile": 1.0,
            "entropy_coef": self.entropy_coefficient,
            "use_adaptive_entropy": self.entropy_target is not None,
            "entropy_target": self.entropy_target or 0.0,
            "entropy_coef_delta": self.entropy_coefficient_step,
            "entropy_coef_min": 0.0,
            "entropy_coef_max": 1.0,
        }

    def refusals(self, beside: Beside) -> list[str]:
        """Settings that act only where another one is on."""
        found = [*super().refusals(beside), *reward_problems(self.rewards)]
        if self.dynamic_sampling and not any(
            one.name == GRADE and one.weight for one in self.rewards
        ):
            found.append(
                "rl.dynamic_sampling replaces groups of equal grades, and rl.rewards doesn't pay "
                "the grade (use rl.dynamic_sampling=false, or add grade to rl.rewards)"
            )
        found += self.idle("max_extra_generations", "dynamic_sampling=true", self.dynamic_sampling)
        adapts = self.entropy_target is not None
        found += self.idle("entropy_coefficient_step", "entropy_target=NATS", adapts)
        if adapts and self.entropy_coefficient > 1:
            found.append(
                "rl.entropy_coefficient is above 1, and rl.entropy_target keeps it in [0, 1]"
            )
        return found

    def idle(self, name: str, needs: str, acts: bool) -> list[str]:
        """Return the refusal of a setting that was said and would do nothing without `needs`."""
        value = getattr(self, name)
        if acts or value == type(self).model_fields[name].default:
            return []
        return [f"rl.{name} {value} would do nothing (add rl.{needs}, or leave it out)"]

    def describe(self) -> dict[str, Any]:
        """Rewards, and dynamic sampling."""
        return {"reward": in_words(self.rewards), "dynamic sampling": self.dynamic_sampling}

    def determinants(self) -> dict[str, Any]:
        """Without rewards where they are the grade alone, whatever time it may take."""
        found = super().determinants()
        return {k: v for k, v in found.items() if k != "rewards" or not are_usual(self.rewards)}

    def ignores_rewards(self, reads: str = "grades alone") -> list[str]:
        """Return the refusal of `rl.rewards`, for a method that would not maximise them."""
        if are_usual(self.rewards):
            return []
        return [
            f"rl.algo '{self.algo}' reads {reads} and would ignore rl.rewards: it needs right and "
            "wrong completions, not graded rewards (leave rl.rewards out, or use --algo grpo)"
        ]
