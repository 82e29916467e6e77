"""The settings of clipped policy gradients."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, Literal

from pydantic import Field

from sage_cli.methods.method import Beside
from sage_cli.methods.online import OnlineMethod
from sage_cli.settings.sections.rewards import are_usual

if TYPE_CHECKING:
    from torch import Tensor

    from sage_cli.methods.parts.inputs import AdvantageInputs

Loss = Literal["grpo", "bnpo", "dapo", "dr_grpo", "cispo", "sapo", "luspo"]
CLIPPING = ("grpo", "bnpo", "dapo", "dr_grpo", "luspo")
"""The losses -min(rho A, clipped rho A)."""
ONE_UPDATE = "one update per generation, in which pi / pi_old is 1"
MORE_UPDATES = "use rl.iterations or rl.steps_per_generation above 1"
_QUANTILE_LIMIT = 2**24
"""Values that `torch.quantile` takes."""


class PolicyGradient(OnlineMethod):
    """Settings of clipped policy gradients. Advantages are the group's unless a method says so."""

    loss: Loss = "grpo"
    """How the policy's term is clipped and averaged."""
    clip: bool = True
    """Whether the ratio pi / pi_old is clipped, to 1 - epsilon_low and 1 + epsilon_high."""
    epsilon_low: float = Field(0.2, gt=0, le=1)
    """The ratio is clipped below 1 - epsilon_low."""
    epsilon_high: float = Field(0.2, gt=0)
    """The ratio is clipped above 1 + epsilon_high; DAPO's clip-higher is .28."""
    delta: float | None = Field(None, gt=1)
    """Two-sided clipping (INTELLECT-2): the ratio's upper end where the advantage is negative, too;
    above 1 + epsilon_high. null leaves that side open."""
    importance_sampling_level: Literal["token", "sequence"] = "token"
    """Ratio pi / pi_old of each token, or a completion's geometric mean for all its tokens (GSPO).
    The estimator `k3-corrected` is exact with `token` alone."""
    top_entropy_quantile: float = Field(1.0, ge=0, le=1)
    """Share of a micro-batch's tokens, those of highest entropy, in the policy's term (and in the
    entropy bonus); the KL term has all of them. 1 keeps all (Wang et al. 2025 use .2)."""
    overlong_buffer: float | None = Field(None, gt=0, lt=1)
    """Punish completions that come near `rollout.max_tokens`: the share of it over which the soft
    punishment grows (DAPO: .2); null punishes none."""

    @property
    def computed_by_trl(self) -> Literal["group", "none"] | None:
        """None: a method's `advantages` are computed here."""
        return None

    @property
    def clip_range(self) -> tuple[float, float] | None:
        """epsilon_low and epsilon_high; None where the ratio is not clipped."""
        return (self.epsilon_low, self.epsilon_high) if self.clip else None

    @property
    def punished_share(self) -> float | None:
        """`overlong_buffer`."""
        return self.overlong_buffer

    def trl_arguments(self) -> dict[str, Any]:
        """Return the method's part of the arguments of TRL's GRPOTrainer."""
        return super().trl_arguments() | {
            "loss_type": self.loss,
            "scale_rewards": self.computed_by_trl or "none",
            "epsilon": self.epsilon_low if self.clip else 1.0,  # a ratio is never below 0
            "epsilon_high": self.epsilon_high if self.clip else math.inf,
            "delta": self.delta,
            "importance_sampling_level": self.importance_sampling_level,
            "top_entropy_quantile": self.top_entropy_quantile,
        }

    def refusals(self, beside: Beside) -> list[str]:
        """Settings of the loss that contradict each other, or have nothing to act on."""
        found = super().refusals(beside)
        return [
            *found,
            *self._of_clipping(),
            *self._of_the_ratio(beside),
            *self._sorted(beside),
        ]

    def warnings(self) -> list[str]:
        """Clip ranges of somebody's choice, where there is nothing to clip."""
        usual = (self.epsilon_low, self.epsilon_high) == (0.2, 0.2)
        if self.steps_per_batch > 1 or not self.clip or usual:
            return []
        return [
            f"the clip range {self.epsilon_low:g} / {self.epsilon_high:g} never acts: with "
            f"{ONE_UPDATE} ({MORE_UPDATES})"
        ]

    def describe(self) -> dict[str, Any]:
        """Loss and clip range."""
        clipped = f"clip {self.epsilon_low:g}/{self.epsilon_high:g}" if self.clip else "no clipping"
        return {
            "loss": f"{self.loss}, {clipped}",
            **super().describe(),
            "overlong punishment": self.overlong_buffer is not None,
        }

    def reads_grades_alone(self) -> list[str]:
        """Return the refusal of other rewards, for a method whose advantages are of grades."""
        found = self.ignores_rewards()
        if not self.overlong_buffer:
            return found
        return [
            *found,
            f"rl.algo '{self.algo}' reads grades alone and would ignore rl.overlong_buffer "
            "(use rl.overlong_buffer=null, or --algo pkpo)",
        ]

    def learns_from_equal_groups(self) -> list[str]:
        """Return the refusal of dynamic sampling, for a method that equal groups teach."""
        if not self.dynamic_sampling:
            return []
        return [
            f"rl.algo '{self.algo}' learns from groups of equal grades, and rl.dynamic_sampling "
            "would replace them (use rl.dynamic_sampling=false)"
        ]

    def _of_clipping(self) -> list[str]:
        clips, found = self.loss in CLIPPING, []
        losses = ", ".join(CLIPPING)
        if self.delta is not None and not clips:
            found.append(f"rl.delta is read by the losses {losses}, not by '{self.loss}'")
        if self.delta is not None and self.delta <= 1 + self.epsilon_high:
            found.append(
                f"rl.delta {self.delta} isn't above 1 + rl.epsilon_high {self.epsilon_high}, where "
                "the ratio is clipped already"
            )
        if not self.clip and (not clips or self.delta is not None):
            found.append(
                f"rl.clip is false, and only the losses {losses} without rl.delta can do without it"
            )
        if self.loss == "cispo" and self.epsilon_high < 1:
            found.append(
                "rl.loss 'cispo' reads rl.epsilon_high as an absolute cap on the ratio, and "
                f"{self.epsilon_high} would cut every token off (about 5 is usual)"
            )
        return found

    def _of_the_ratio(self, beside: Beside) -> list[str]:
        found, anchor = [], beside.anchor
        by_sequence = self.importance_sampling_level == "sequence"
        if self.steps_per_batch == 1 and by_sequence:
            found.append(
                f"rl.importance_sampling_level 'sequence' (GSPO) changes nothing with {ONE_UPDATE},"
                f" of completions as of tokens ({MORE_UPDATES})"
            )
        if self.steps_per_batch == 1 and self.delta is not None:
            found.append(f"rl.delta has nothing to clip with {ONE_UPDATE} ({MORE_UPDATES})")
        by_reward = (anchor.kl, anchor.estimator) == ("reverse", "reward")
        if by_sequence and (self.shapes_tokens or by_reward):
            whose = f"rl.algo '{self.algo}'" if self.shapes_tokens else "anchor.estimator 'reward'"
            found.append(
                f"{whose} gives each token an advantage of its own, and under "
                "rl.importance_sampling_level 'sequence' (GSPO) all tokens of a completion share "
                "one gradient (use rl.importance_sampling_level=token)"
            )
        return found

    def _sorted(self, beside: Beside) -> list[str]:
        completions = self.prompts_per_step * self.rollouts_per_prompt
        tokens = beside.rollout.max_tokens * (self.micro_batch or completions // self.processes)
        if self.top_entropy_quantile == 1 or tokens <= _QUANTILE_LIMIT:
            return []
        return [
            f"rl.top_entropy_quantile sorts a micro-batch's tokens, up to {tokens:,} here, and at "
            f"most {_QUANTILE_LIMIT:,} can be sorted (use a smaller rl.micro_batch)"
        ]


class PlainAdvantages(PolicyGradient):
    """Settings of methods that say nothing of advantages, so that they can be chosen."""

    advantage: Literal["group", "none", "beta"] = "group"
    """`group` divides by the group's deviation, `none` only centres, `beta` by a Beta density."""

    @property
    def computed_by_trl(self) -> Literal["group", "none"] | None:
        """TRL's `scale_rewards`."""
        return None if self.advantage == "beta" else self.advantage

    def advantages(self, inputs: AdvantageInputs) -> Tensor:
        """Return what `advantage` names, of the rewards; `beta` of the grades."""
        from sage_cli.methods.parts import formulas

        found = {
            "group": lambda: formulas.group_advantages(inputs.rewards_PN),
            "none": lambda: formulas.centred_advantages(inputs.rewards_PN),
            "beta": lambda: formulas.beta_advantages(inputs.right_PN),
        }[self.advantage]()
        return found.flatten()

    def refusals(self, beside: Beside) -> list[str]:
        """Punishments take rewards out of [0, 1], where `beta` is defined."""
        found = super().refusals(beside)
        if self.advantage == "beta" and not are_usual(self.rewards):
            found.append(
                f"rl.advantage 'beta' of rl.algo '{self.algo}' reads grades alone and would ignore "
                "rl.rewards (use --advantage group, or leave rl.rewards out)"
            )
        if self.advantage == "beta" and self.overlong_buffer:
            found.append(
                "rl.advantage 'beta' is defined for rewards in [0, 1], and rl.overlong_buffer "
                "takes them below 0 (use --advantage group or rl.overlong_buffer=null)"
            )
        return found

    def describe(self) -> dict[str, Any]:
        """The advantage beside the loss."""
        found = super().describe()
        return found | {"loss": f"{found['loss']}, advantage {self.advantage}"}
