"""The bases of methods: the training loop, what learns from rollouts, clipped policy gradients.

`Method` has the loop's settings and answers what the commands ask of any method. `OnlineMethod`
learns from completions of the policy as it stands, `PolicyGradient` by a clipped loss.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Protocol, get_args

from pydantic import ConfigDict, Field

from sage_cli.errors import ConfigurationError
from sage_cli.settings.own_code import load_plugin
from sage_cli.settings.section import COSMETIC, WHERE_SET, Extensible, ReadWith
from sage_cli.settings.training import (
    GRADE,
    THE_GRADE,
    AnchorSection,
    Optimizer,
    Reward,
    Rewards,
    Scheduler,
    are_usual,
    reward_problems,
    rewards_in_words,
)

if TYPE_CHECKING:
    from torch import Tensor

    from sage_cli.guides import Guide
    from sage_cli.methods.formulas import AdvantageInputs, Shaped, Update
    from sage_cli.methods.hooks import Hooks, Setup
    from sage_cli.settings.inputs import DataSection, ModelSection, PromptSection, SourceSection
    from sage_cli.settings.sampling import RolloutSection

Loss = Literal["grpo", "bnpo", "dapo", "dr_grpo", "cispo", "sapo", "luspo"]
CLIPPING = ("grpo", "bnpo", "dapo", "dr_grpo", "luspo")
"""The losses -min(rho A, clipped rho A)."""
ONE_UPDATE = "one update per generation, because pi / pi_old is then 1"
MORE_UPDATES = "use rl.iterations or rl.steps_per_generation above 1"
_QUANTILE_LIMIT = 2**24
"""Values that `torch.quantile` takes."""


class Beside(Protocol):
    """The sections that a method can check its settings against."""

    @property
    def anchor(self) -> AnchorSection: ...  # noqa: D102
    @property
    def data(self) -> DataSection: ...  # noqa: D102
    @property
    def guide(self) -> Guide: ...  # noqa: D102
    @property
    def model(self) -> ModelSection: ...  # noqa: D102
    @property
    def prompt(self) -> PromptSection: ...  # noqa: D102
    @property
    def rollout(self) -> RolloutSection: ...  # noqa: D102


class Method(Extensible):
    """The RL loop, Table 8; `algo` chooses the method, which may add settings of its own.

    A method is a subclass with `algo: Literal["name"] = "name"`, in a module of this package or
    behind an entry point of the group `sage_cli.methods`. The defaults of its class are its
    settings. Hooks that a subclass does not override do nothing.
    """

    model_config = ConfigDict(defer_build=True)  # of twenty classes a command validates with one

    package = "sage_cli.methods"
    tag = "algo"

    algo: str = "grpo"
    """Method of RL; `sage config algos` lists and explains them."""
    compat: Literal["none", "official"] = Field("none", json_schema_extra=COSMETIC)
    """Source of default values: `official` uses those of the authors' code where they differ from
    the paper."""
    steps: int = Field(1000, ge=1)
    """Number of optimiser steps that RL takes."""
    prompts_per_step: int = Field(8, ge=1)
    """Number of problems that are sampled per step."""
    rollouts_per_prompt: int = Field(8, ge=2)
    """Number of completions per problem: the group within which advantages are computed."""
    micro_batch: int | None = Field(None, ge=1)
    """Number of completions per forward pass; null means all completions of a process's step."""
    learning_rate: float = Field(5e-6, gt=0)
    """Peak learning rate, which is reached at the end of the learning rate's warm-up."""
    weight_decay: float = Field(0.01, ge=0)
    """Weight decay that AdamW applies."""
    scheduler: Scheduler = "linear"
    """Schedule by which the learning rate falls after its warm-up."""
    warmup_ratio: float = Field(0.1, ge=0, lt=1)
    """Share of the steps over which the learning rate rises (its warm-up)."""
    max_grad_norm: float = Field(1.0, gt=0)
    """Norm to which larger gradients are scaled down."""
    optimizer: Optimizer = "adamw_8bit"
    """Optimiser: `adamw`, or `adamw_8bit`, which needs a quarter of its memory, but also a GPU and
    bitsandbytes. `fsdp2` cannot shard the latter."""
    gradient_checkpointing: bool = Field(True, json_schema_extra=COSMETIC)
    """Whether to recompute activations in the backward pass instead of keeping them, which saves
    memory and costs time."""
    save_every: int = Field(50, ge=1, json_schema_extra=COSMETIC)
    """Number of optimiser steps after which a checkpoint is written."""
    save_minutes: float = Field(10, gt=0, json_schema_extra=COSMETIC)
    """Number of minutes after which a checkpoint is written in any case. It grows if saving would
    take more than 5% of the time."""
    keep_checkpoints: int | None = Field(2, ge=1, json_schema_extra=COSMETIC)
    """Number of latest checkpoints to keep; null keeps all."""
    processes: int = Field(1, ge=1)
    """Number of data-parallel processes on this machine. It is ignored if a launcher has started
    them already."""
    accelerate: str | None = Field(None, json_schema_extra=COSMETIC)
    """Configuration with which Accelerate launches the processes: `ddp`, `fsdp2`, `zero3`, or a
    file."""
    allow_template_mismatch: bool = Field(False, json_schema_extra=COSMETIC)
    """Whether RL may start from a run (`--init`) that was trained with another prompt template."""
    stop_when_stuck: bool = Field(True, json_schema_extra=COSMETIC)
    """Whether to stop, instead of only warning, when nearly all completions are truncated or nearly
    all groups have equal rewards."""
    preflight: bool = Field(True, json_schema_extra=COSMETIC)
    """Whether the first completions and log-probabilities are judged before the first update. It
    stops a run whose answers cannot be read, unless `rl.stop_when_stuck` is false, or whose
    log-probabilities are not the model's. `off` trains without a look."""
    seed: int = 3407
    """Training seed: it decides the order of the problems and the sampling of completions."""

    source: ClassVar[str] = ""
    """Who published it, and its idea in half a sentence."""
    fidelity: ClassVar[Literal["faithful", "reduced"]] = "faithful"
    """The method as published, or a reduced one."""
    read_from: ClassVar[Literal["code", "paper", "secondary"]] = "paper"
    """What it was read from: the authors' code, their paper, or what others write of it."""
    differs: ClassVar[str] = ""
    """What is otherwise than in the source."""
    kl_without_guide: ClassVar[Literal["reverse", "none"]] = "reverse"
    """Its KL term; a guide always brings the reverse KL that it reshapes."""
    anchored: ClassVar[Mapping[str, Any]] = {}
    """Settings of `anchor` that belong to the method."""
    takes_a_guide: ClassVar[bool] = True
    """False where there is no KL term that a guide could reshape."""
    needs_whole_model: ClassVar[bool] = False
    """True where the policy must not be spread over processes."""
    loss_in_parts: ClassVar[bool] = False
    """True where a micro-batch is passed backwards in several parts."""
    online: ClassVar[bool] = False
    """True where completions are sampled from the policy as it trains."""
    keeps_reference: ClassVar[bool] = False
    """True where a frozen copy of the policy is kept, whatever the anchor."""
    trains_alone: ClassVar[bool] = False
    """True where it is trained in one process."""
    trained_by: ClassVar[str] = "sage_cli.training.rl"
    """The module whose `train(training, run, watch, progress)` trains it. It is imported when a
    training begins, so that settings load no trainer."""

    @classmethod
    def stored(cls) -> type[Method]:
        """Return the class for a finished run's method that can't be loaded."""
        return StoredMethod

    @classmethod
    def name(cls) -> str:
        """Return the method's name, which `--algo` accepts."""
        return str(get_args(cls.model_fields["algo"].annotation)[0])

    def load_training(self) -> Any:
        """Import and return the module that trains it, with the libraries that this takes."""
        return import_module(self.trained_by)

    @property
    def steps_per_batch(self) -> int:
        """Optimiser steps from one generation of completions to the next."""
        return 1

    @property
    def passes(self) -> int:
        """Optimisation passes over one generation of completions."""
        return 1

    @property
    def prompts_per_batch(self) -> int:
        """Problems whose completions are sampled together, before the first step on them."""
        return self.prompts_per_step

    @property
    def replaces_prompts(self) -> bool:
        """Return True if a step may come to other problems than those in its place in order."""
        return False

    @property
    def samples_beforehand(self) -> int:
        """`initial_samples`: completions of each problem that are sampled before training."""
        return int(getattr(self, "initial_samples", 0))

    @property
    def paid(self) -> Sequence[Reward]:
        """Return what a completion is paid; empty where no reward is maximised."""
        return ()

    @property
    def peak_rate(self) -> float:
        """Return the policy's learning rate at the end of warm-up."""
        return self.learning_rate

    def tokens(self, longest: int) -> tuple[int, int]:
        """Return how many tokens are sampled and trained on, if completions have `longest` each."""
        completions = self.steps * self.prompts_per_step * self.rollouts_per_prompt
        return completions * longest, completions * longest

    def require_installed(self) -> None:
        """Raise ConfigurationError where a finished run's method is not installed here."""

    def require_problems(self, workings: Sequence[str | None], source: SourceSection) -> None:
        """Raise DataError where it can't learn from any problem, by their worked solutions."""
        _ = workings, source

    def refusals(self, beside: Beside) -> list[str]:
        """Return why it can't be trained under these settings, a sentence each."""
        begins_at_0 = self.compat == "official" or not self.online
        idle = [
            f"rl.steps 1 would move nothing: with rl.warmup_ratio {self.warmup_ratio:g} the only "
            "step's learning rate is 0 (use more steps, or rl.warmup_ratio=0)"
        ]
        refusals = idle if begins_at_0 and self.steps == 1 and self.warmup_ratio else []
        if self.takes_a_guide or beside.anchor.kl == "none":
            return refusals
        return [
            *refusals,
            f"rl.algo '{self.algo}' holds the policy by something else than a KL term, which a "
            "guide could reshape (use --kl none and --guide none)",
        ]

    def warnings(self) -> list[str]:
        """Return what to say of its settings before a training begins."""
        return []

    def describe(self) -> dict[str, Any]:
        """Return the facts of a dry run that are the method's own, by name."""
        return {}

    def amounts(self, longest: int) -> dict[str, Any]:
        """Return the facts of a dry run on how much is sampled and learnt, by name.

        Completions have at most `longest` tokens.
        """
        batch = batch_of(self, self.processes)
        ahead = self.prompts_per_batch // self.prompts_per_step
        return {
            "steps": self.steps,
            "batch": f"{self.prompts_per_step} prompts x {self.rollouts_per_prompt} rollouts = "
            f"{batch.completions} completions, in "
            + (f"{self.processes} processes x " if self.processes > 1 else "")
            + f"{batch.accumulation} micro-batch{'es' * (batch.accumulation > 1)} of "
            f"{batch.micro_batch}" + (f", sampled for {ahead} steps at once" if ahead > 1 else ""),
            "completions": f"{self.steps * batch.completions:,}",
            "tokens at most": f"{self.tokens(longest)[0]:,}",
        }


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
    """True where advantages are those of grades, whatever else is paid."""
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
    def paid(self) -> Rewards:
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

    def refusals(self, beside: Beside) -> list[str]:
        """Return the conflicts: settings that act only where another one is on."""
        refusals = [*super().refusals(beside), *reward_problems(self.rewards)]
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
            f"rl.algo '{self.algo}' reads {reads} and would ignore rl.rewards: it needs right and "
            "wrong completions, not graded rewards (leave rl.rewards out, or use --algo grpo)"
        ]


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
    def clip_range(self) -> tuple[float, float] | None:
        """epsilon_low and epsilon_high; None where the ratio is not clipped."""
        return (self.epsilon_low, self.epsilon_high) if self.clip else None

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
        """Return the conflicts: settings of the loss that contradict each other or do nothing."""
        return [
            *super().refusals(beside),
            *self._of_lengths(),
            *self._of_clipping(),
            *self._of_the_ratio(beside),
            *self._sorted(beside),
        ]

    def warnings(self) -> list[str]:
        """Return a warning of chosen clip ranges where there is nothing to clip."""
        usual = (self.epsilon_low, self.epsilon_high) == (0.2, 0.2)
        if self.steps_per_batch > 1 or not self.clip or usual:
            return []
        return [
            f"the clip range {self.epsilon_low:g} / {self.epsilon_high:g} has no effect: with "
            f"{ONE_UPDATE} ({MORE_UPDATES})"
        ]

    def describe(self) -> dict[str, Any]:
        """Return the facts: loss and clip range."""
        clipped = f"clip {self.epsilon_low:g}/{self.epsilon_high:g}" if self.clip else "no clipping"
        return {
            "loss": f"{self.loss}, {clipped}",
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

    def _of_clipping(self) -> list[str]:
        clips, refusals = self.loss in CLIPPING, []
        losses = ", ".join(CLIPPING)
        if self.delta is not None and not clips:
            refusals.append(f"rl.delta is read by the losses {losses}, not by '{self.loss}'")
        if self.delta is not None and self.delta <= 1 + self.epsilon_high:
            refusals.append(
                f"rl.delta {self.delta} isn't above 1 + rl.epsilon_high {self.epsilon_high}, where "
                "the ratio is clipped already"
            )
        if not self.clip and (not clips or self.delta is not None):
            refusals.append(
                f"rl.clip is false, and only the losses {losses} without rl.delta can do without it"
            )
        if self.loss == "cispo" and self.epsilon_high < 1:
            refusals.append(
                "rl.loss 'cispo' reads rl.epsilon_high as an absolute cap on the ratio, and "
                f"{self.epsilon_high} would cut every token off (about 5 is usual)"
            )
        return refusals

    def _of_the_ratio(self, beside: Beside) -> list[str]:
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

    def refusals(self, beside: Beside) -> list[str]:
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


@dataclass(frozen=True)
class StepSizes:
    """The `completions` of one optimiser step = processes x `micro_batch` x `accumulation`."""

    completions: int
    micro_batch: int
    accumulation: int


def batch_of(rl: Method, processes: int) -> StepSizes:
    """Return how a step's completions are divided among `processes` and their micro-batches.

    Without `rl.micro_batch` a process takes all of its completions at once. Raises
    ConfigurationError where the division leaves a rest.
    """
    completions = rl.prompts_per_step * rl.rollouts_per_prompt
    micro_batch = rl.micro_batch or max(1, completions // processes)
    if completions % (micro_batch * processes):
        together = f" x rl.processes {processes}" if processes > 1 else ""
        raise ConfigurationError(
            f"rl.micro_batch {micro_batch}{together} doesn't divide the {completions} completions "
            f"of a step ({rl.prompts_per_step} prompts x {rl.rollouts_per_prompt} rollouts)",
            "choose rl.prompts_per_step, rl.rollouts_per_prompt and rl.micro_batch so that "
            "prompts x rollouts is a multiple of micro_batch x processes",
        )
    return StepSizes(completions, micro_batch, completions // (micro_batch * processes))
