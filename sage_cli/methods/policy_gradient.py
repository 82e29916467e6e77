"""The base of policy gradients with a clipped loss, and of those with a choice of advantages."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar, Literal

from pydantic import ConfigDict, Field

from sage_cli.methods.clipping import MORE_UPDATES, ONE_UPDATE, Clipping, Loss
from sage_cli.methods.loop import OtherSections
from sage_cli.methods.online import OnlineMethod
from sage_cli.settings.own_code import load_plugin
from sage_cli.settings.rewards import are_usual
from sage_cli.settings.section import ReadWith

if TYPE_CHECKING:
    from torch import Tensor

    from sage_cli.methods.formulas import AdvantageInputs

_QUANTILE_LIMIT = 2**24
"""Values that `torch.quantile` takes."""


class PolicyGradient(OnlineMethod):
    """Settings of clipped policy gradients. Advantages are the group's unless a method says so."""

    loss: Loss = "grpo"
    """Loss, which decides how the policy's term is clipped and averaged."""
    clip: bool = True
    """Whether the ratio pi / pi_old is clipped to the range from 1 - epsilon_low to 1 +
    epsilon_high."""
    epsilon_low: float = Field(0.2, gt=0, le=1)
    """Lower clip range: the ratio pi / pi_old is clipped below 1 - epsilon_low."""
    epsilon_high: float = Field(0.2, gt=0)
    """Upper clip range: the ratio pi / pi_old is clipped above 1 + epsilon_high. DAPO's clip-higher
    uses 0.28."""
    delta: float | None = Field(None, gt=1)
    """Upper end of the ratio for negative advantages (two-sided clipping of INTELLECT-2); it must
    be above 1 + epsilon_high. null leaves that side unclipped."""
    importance_sampling_level: Literal["token", "sequence"] = "token"
    """Level of the ratio pi / pi_old: `token` for each token's own, `sequence` for the completion's
    geometric mean (GSPO). The KL estimator `k3-corrected` is exact only with `token`."""
    top_entropy_quantile: float = Field(1.0, ge=0, le=1)
    """Share of a micro-batch's tokens, those with the highest entropy, that the policy's term and
    the entropy bonus use. The KL term uses all tokens. 1 keeps all, and Wang et al. (2025) use
    0.2."""
    overlong_buffer: float | None = Field(None, gt=0, lt=1)
    """Share of `rollout.max_tokens` over which the penalty on overlong completions grows (0.2 in
    DAPO). null means no penalty."""

    read_with: ClassVar[tuple[ReadWith, ...]] = (
        *OnlineMethod.read_with,
        ReadWith("rl.epsilon_", "rl.clip", True, (False,)),
    )

    @property
    def computed_by_trl(self) -> Literal["group", "none"] | None:
        """None: a method's `advantages` are computed here."""
        return None

    @property
    def clipping(self) -> Clipping:
        """How the ratio is clipped."""
        return Clipping(
            self.loss,
            self.clip,
            self.epsilon_low,
            self.epsilon_high,
            self.delta,
            self.importance_sampling_level,
        )

    @property
    def clip_range(self) -> tuple[float, float] | None:
        """epsilon_low and epsilon_high; None where the ratio is not clipped."""
        return self.clipping.range

    def trl_arguments(self) -> dict[str, Any]:
        """Return the method's part of the arguments of TRL's GRPOTrainer."""
        return super().trl_arguments() | {
            "loss_type": self.loss,
            "scale_rewards": self.computed_by_trl or "none",
            **self.clipping.trl_arguments(),
            "top_entropy_quantile": self.top_entropy_quantile,
        }

    def refusals(self, beside: OtherSections) -> list[str]:
        """Return the conflicts: settings of the loss that contradict each other or do nothing."""
        return [
            *super().refusals(beside),
            *self._of_lengths(),
            *self.clipping.problems(),
            *self._of_the_ratio(beside),
            *self._sorted(beside),
        ]

    def warnings(self) -> list[str]:
        """Return a warning of chosen clip ranges where there is nothing to clip."""
        return self.clipping.warnings(self.steps_per_batch)

    def describe(self) -> dict[str, Any]:
        """Return the facts: loss and clip range."""
        return {
            "loss": self.clipping.describe(),
            **super().describe(),
            "overlong punishment": self.overlong_buffer is not None,
        }

    def _of_lengths(self) -> list[str]:
        if not (self.reads_grades_alone and self.overlong_buffer):
            return []
        return [
            f"rl.algo '{self.algo}' reads grades alone and would ignore rl.overlong_buffer "
            "(use rl.overlong_buffer=null, or --algo pkpo)"
        ]

    def _of_the_ratio(self, beside: OtherSections) -> list[str]:
        refusals, anchor = [], beside.anchor
        by_sequence = self.importance_sampling_level == "sequence"
        if self.steps_per_batch == 1 and by_sequence:
            refusals.append(
                f"rl.importance_sampling_level 'sequence' (GSPO) has no effect with {ONE_UPDATE},"
                f" for completions and for tokens ({MORE_UPDATES})"
            )
        if self.steps_per_batch == 1 and self.delta is not None:
            refusals.append(f"rl.delta has nothing to clip with {ONE_UPDATE} ({MORE_UPDATES})")
        by_reward = (anchor.kl, anchor.estimator) == ("reverse", "reward")
        if by_sequence and (self.shapes_tokens or by_reward):
            whose = f"rl.algo '{self.algo}'" if self.shapes_tokens else "anchor.estimator 'reward'"
            refusals.append(
                f"{whose} gives each token an advantage of its own, and under "
                "rl.importance_sampling_level 'sequence' (GSPO) all tokens of a completion share "
                "one gradient (use rl.importance_sampling_level=token)"
            )
        return refusals

    def _sorted(self, beside: OtherSections) -> list[str]:
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

    learns_without_reward = True
    advantage: Literal["group", "none", "beta"] = "group"
    """Normalisation of advantages: `group` divides by the group's standard deviation, `none` only
    subtracts the mean, and `beta` divides by a Beta density."""

    @property
    def computed_by_trl(self) -> Literal["group", "none"] | None:
        """TRL's `scale_rewards`."""
        return None if self.advantage == "beta" else self.advantage

    def advantages(self, inputs: AdvantageInputs) -> Tensor:
        """Return what `advantage` names, of the rewards; `beta` of the grades."""
        from sage_cli.methods import formulas

        advantages = {
            "group": lambda: formulas.group_advantages(inputs.rewards_PN, inputs.rated_PN),
            "none": lambda: formulas.centred_advantages(inputs.rewards_PN),
            "beta": lambda: formulas.beta_advantages(inputs.right_PN),
        }[self.advantage]()
        return advantages.flatten()

    def refusals(self, beside: OtherSections) -> list[str]:
        """Return the conflicts: punishments take rewards out of [0, 1], where `beta` is defined."""
        refusals = super().refusals(beside)
        if self.advantage == "beta" and not are_usual(self.rewards):
            refusals.append(
                f"rl.advantage 'beta' of rl.algo '{self.algo}' reads grades alone and would ignore "
                "rl.rewards (use --advantage group, or leave rl.rewards out)"
            )
        if self.advantage == "beta" and self.overlong_buffer:
            refusals.append(
                "rl.advantage 'beta' is defined for rewards in [0, 1], and rl.overlong_buffer "
                "takes them below 0 (use --advantage group or rl.overlong_buffer=null)"
            )
        return refusals

    def describe(self) -> dict[str, Any]:
        """Return the advantage beside the loss."""
        facts = super().describe()
        return facts | {"loss": f"{facts['loss']}, advantage {self.advantage}"}


class StoredMethod(PolicyGradient):
    """The settings of a finished run whose method is not installed here: read, never trained."""

    model_config = ConfigDict(extra="allow")

    def require_installed(self) -> None:
        """Raise ConfigurationError with what is wrong with the method's package."""
        load_plugin(self.package, self.algo)
