"""The base of methods that learn from completions of the policy as it stands."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar, Literal

from pydantic import Field

from sage_cli.methods.loop import Method, OtherSections, Sampled
from sage_cli.settings.rewards import (
    GRADE,
    THE_GRADE,
    Rewards,
    are_usual,
    reward_problems,
    rewards_in_words,
)
from sage_cli.settings.section import WHERE_SET, ReadWith

if TYPE_CHECKING:
    from torch import Tensor

    from sage_cli.methods.formulas import AdvantageInputs, Shaped, Update
    from sage_cli.methods.hooks import Hooks, Setup


class OnlineMethod(Method):
    """Settings of methods that learn from completions of the policy as it stands.

    `shapes_tokens`: the method overrides `shape`, so that each token has an advantage of its own in
    every update. `reads_old_entropy`: its shape reads the entropies of the policy that sampled.
    """

    rewards: Rewards = Field(THE_GRADE, json_schema_extra=WHERE_SET)
    """Rewards, a list of {name, weight} whose weighted sum is maximised. A name is `grade`,
    `format`, `brevity`, `random`, `plurality`, or your own function, for example
    `mine.py:concise`."""
    iterations: int = Field(1, ge=1)
    """Number of optimisation passes that are made over one generation batch (mu in the paper and in
    TRL)."""
    steps_per_generation: int = Field(1, ge=1)
    """Number of optimiser steps whose completions are sampled together, before the first of these
    steps."""
    dynamic_sampling: bool = False
    """Whether to replace groups whose completions all have the same reward (DAPO's dynamic
    sampling)."""
    max_extra_generations: int = Field(3, ge=0)
    """Number of further generations that dynamic sampling may spend per step to replace groups."""
    entropy_coefficient: float = Field(0.0, ge=0)
    """Weight of the entropy bonus: it multiplies the mean entropy of the completions' tokens, in
    nats."""
    entropy_target: float | None = Field(None, gt=0)
    """Mean entropy in nats that `entropy_coefficient` is adapted to (Skywork-OR1). After each step
    the coefficient rises by `entropy_coefficient_step` if the entropy is at most this target,
    and otherwise falls, within [0, 1]; the bonus is applied only if the last step's entropy was
    at most the target. null keeps the coefficient constant."""
    entropy_coefficient_step: float = Field(0.005, gt=0, le=1)
    """Amount by which an adaptive `entropy_coefficient` rises or falls per step (see
    `entropy_target`)."""

    cast_lm_head_to_fp32: bool = Field(False, json_schema_extra=WHERE_SET)
    """Whether to compute the logits in float32 while the rest is in bfloat16 (TRL's setting of that
    name)."""
    mask_truncated_completions: bool = Field(False, json_schema_extra=WHERE_SET)
    """Whether truncated completions are left out of the loss and the KL term (TRL's setting of that
    name). Their rewards still count in the advantages of their group."""

    read_with: ClassVar[tuple[ReadWith, ...]] = (
        ReadWith("rl.max_extra_generations", "rl.dynamic_sampling", True, refused=True),
        ReadWith("rl.entropy_coefficient_step", "rl.entropy_target", 0.2, (None,), refused=True),
    )
    online = True
    shapes_tokens: ClassVar[bool] = False
    reads_old_entropy: ClassVar[bool] = False
    reads_grades_alone: ClassVar[bool] = False
    """True where advantages are those of grades, whatever else is rewarded."""
    learns_without_reward: ClassVar[bool] = False
    """True where advantages of 0 leave the loss to the anchor alone, so that a teacher can distil
    into the policy without a reward."""
    equal_groups_teach: ClassVar[bool] = False
    """True where a group of equal grades has advantages, so that none may be replaced."""

    def advantages(self, inputs: AdvantageInputs) -> Tensor:
        """Return advantages (B,) or (B, T) of a generation batch: the group's."""
        from sage_cli.methods.formulas import group_advantages

        return group_advantages(inputs.rewards_PN, inputs.rated_PN).flatten()

    def shape(self, update: Update) -> Tensor | Shaped:
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
    def used_rewards(self) -> Rewards:
        """`rewards`."""
        return self.rewards

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
    def sampled(self) -> Sampled:
        """Return how many completions are sampled, with those of dynamic sampling."""
        once, further = super().sampled.least, self.max_extra_generations
        if not self.dynamic_sampling:
            return Sampled(once, once)
        because = (
            "dynamic sampling replaces groups of equal grades in up to "
            f"{further} further generations per step"
        )
        return Sampled(once, once * (1 + further), because)

    @property
    def replaces_prompts(self) -> bool:
        """Return True if a step may come to other problems than those in its place in order."""
        return self.dynamic_sampling

    def hooks(self, setup: Setup) -> Hooks:
        """Return what the method does within one training, besides its formulas."""
        from sage_cli.methods.hooks import Hooks

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

    def refusals(self, beside: OtherSections) -> list[str]:
        """Return the conflicts: settings that act only where another one is on."""
        taught = beside.anchor.teacher is not None
        refusals = [*super().refusals(beside), *reward_problems(self.rewards, taught=taught)]
        if self.dynamic_sampling and not any(
            reward.name == GRADE and reward.weight for reward in self.rewards
        ):
            refusals.append(
                "rl.dynamic_sampling replaces groups of equal grades, and rl.rewards doesn't pay "
                "the grade (use rl.dynamic_sampling=false, or add grade to rl.rewards)"
            )
        if self.reads_grades_alone:
            refusals += self.ignores_rewards()
        if self.equal_groups_teach and self.dynamic_sampling:
            refusals.append(
                f"rl.algo '{self.algo}' learns from groups of equal grades, and rl.dynamic_sampling"
                " would replace them (use rl.dynamic_sampling=false)"
            )
        if self.samples_beforehand and beside.anchor.kl == "forward":
            refusals.append(
                f"anchor.kl 'forward' has completions sampled beforehand, and rl.algo '{self.algo}'"
                " has others of its own (use --kl none or reverse)"
            )
        if self.entropy_target is not None and self.entropy_coefficient > 1:
            refusals.append(
                "rl.entropy_coefficient is above 1, and rl.entropy_target keeps it in [0, 1]"
            )
        return refusals

    def describe(self) -> dict[str, Any]:
        """Return the facts: rewards, and dynamic sampling."""
        return {"reward": rewards_in_words(self.rewards), "dynamic sampling": self.dynamic_sampling}

    def determinants(self) -> dict[str, Any]:
        """Without rewards where they are the grade alone, whatever time it may take."""
        settings = super().determinants()
        return {k: v for k, v in settings.items() if k != "rewards" or not are_usual(self.rewards)}

    def ignores_rewards(self, reads: str = "grades alone") -> list[str]:
        """Return the refusal of `rl.rewards`, for a method that would not maximise them."""
        if are_usual(self.rewards):
            return []
        return [
            f"rl.algo '{self.algo}' reads {reads} and would ignore rl.rewards: it needs correct "
            "and wrong completions, not graded rewards (leave rl.rewards out, or use --algo grpo)"
        ]
