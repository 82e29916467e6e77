"""`sft`, `rl`, `anchor`: how the policy is trained and what holds it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

from pydantic import Field, ValidationInfo, field_validator, model_validator

from sage_cli.config.advantages import (
    BUILT_IN_ADVANTAGES,
    CLIPPING,
    AdvantageOptions,
    NoOptions,
    advantage_options,
)
from sage_cli.config.base import COSMETIC, Section
from sage_cli.config.guided import GuidedSection
from sage_cli.config.own_terms import against_dars, against_dpo, against_pacs
from sage_cli.config.plugins import require_name
from sage_cli.errors import ConfigurationError

Optimizer = Literal["adamw_8bit", "adamw"]
SftOptimizer = Literal["adamw_8bit", "adamw", "muon"]
Scheduler = Literal["linear", "cosine", "constant"]

ADVANTAGES_GROUP = "sage_cli.advantages"


class SftSection(Section):
    """Supervised warm-up, Table 7. `enabled: false` takes the model as it is for the base."""

    enabled: bool = True
    """Warm the model up before RL; false takes it as it is."""
    epochs: int = Field(2, ge=1)
    """Passes over the demonstrations."""
    steps: int | None = Field(None, ge=1)
    """Optimiser steps; when set it replaces `epochs`."""
    batch_size: int = Field(1, ge=1)
    """Demonstrations in an optimiser step."""
    micro_batch: int | None = Field(None, ge=1)
    """Demonstrations that go through the model at once; null: all of a step."""
    shuffle: bool = True
    """Draw the demonstrations' order anew in each epoch."""
    max_length: int = Field(2048, ge=8)
    """Tokens of a demonstration at most; longer ones are left out."""
    loss: Literal["completion", "text"] | None = None
    """What the loss covers: the completion alone, or prompt and completion. null leaves it to the
    demonstrations: a data set's count by their completion, a generator says it of each."""
    learning_rate: float = Field(2e-4, gt=0)
    """At the end of warm-up."""
    weight_decay: float = Field(0.01, ge=0)
    """AdamW's."""
    scheduler: Scheduler = "linear"
    """How the learning rate falls after warm-up."""
    warmup_steps: int | None = Field(5, ge=0)
    """Optimiser steps over which the learning rate rises."""
    warmup_ratio: float = Field(0.0, ge=0, lt=1)
    """Used when `warmup_steps` is null."""
    max_grad_norm: float = Field(1.0, gt=0)
    """Gradients are scaled down to this norm."""
    optimizer: SftOptimizer = "adamw_8bit"
    """`muon`: `sage_cli.training.muon`, for small models that start from nothing."""
    gradient_checkpointing: bool = True
    """Compute activations twice instead of keeping them: less memory, more time."""
    save_every: int = Field(200, ge=1, json_schema_extra=COSMETIC)
    """Optimiser steps from one checkpoint to the next."""
    save_minutes: float = Field(10, gt=0, json_schema_extra=COSMETIC)
    """A checkpoint after so many minutes, too; after more where saving would take over 5 % of the
    time."""
    seed: int = 3407
    """Of the order of demonstrations and of adapters' first weights."""


class RlSection(Section):
    """The objective and its optimiser, Table 8.

    `algo` names a row of the table in `sage_cli.config.algorithms`, which fills the settings that
    make up the algorithm; each of them can be overridden. A step takes
    `prompts_per_step` x `rollouts_per_prompt` completions; `micro_batch` completions go through
    the model at once.
    """

    algo: Literal[
        "grpo", "bnpo", "dapo", "dr-grpo", "entropy-bonus", "adaptive-entropy", "80-20", "gspo",
        "pass-at-k", "pkpo", "entropy-shaped", "steer", "clip-cov", "kl-cov", "verl",
        "annealed-kl", "pacs", "rlpr", "dars", "guided-dpo",
    ] = "grpo"  # fmt: skip
    """The row of `sage algos` that fills in what makes up the algorithm."""
    compat: Literal["none", "official"] = Field("none", json_schema_extra=COSMETIC)
    """`official` fills in the authors' values where they differ (`sage_cli.config.compat`)."""
    loss: Literal["grpo", "bnpo", "dapo", "dr_grpo", "cispo", "sapo", "luspo", "pacs", "dpo"] = (
        "grpo"
    )
    """How the policy's term is clipped and averaged. `pacs` has verdicts as labels of the policy's
    log-ratios, without advantages or clipping; the anchor's term keeps `grpo`'s mean. `dpo`
    compares pairs of completions (`rl.guided`)."""
    guided: GuidedSection = GuidedSection()
    pacs_beta: float = Field(1.0, gt=0)
    """Weight of the log-ratio in a PACS score."""
    pacs_weighted: bool = True
    """Right and wrong completions of a group count alike, however many there are of either."""
    advantage: str = "group"
    """`group` divides by the group's deviation, `none` only centres, `beta` by a Beta density;
    docs/methods.md has the others. Or one that a package registers under the entry-point group
    `sage_cli.advantages`."""
    advantage_options: dict[str, Any] = Field(default_factory=dict)
    """Settings of the advantage (`sage_cli.config.advantages`), or of a registered one."""
    reward: Literal["verdict", "probability"] = "verdict"
    """`verdict`: 1 for a right answer. `probability` (RLPR): the gold's mean probability in the
    answer's place, above what it was right after the prompt at the start; verdicts are logged."""
    reward_filter: float = Field(0.5, ge=0)
    """`probability`: from step 11 on, groups whose rewards deviate by less than this share of the
    running average teach nothing. RLPR: .5 for Qwen, .9 for Llama, 1.0 for Gemma; 0 keeps all."""
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
    entropy_coefficient: float = Field(0.0, ge=0)
    """Bonus on the mean entropy of the completions' tokens, in the loss's units for each nat."""
    entropy_target: float | None = Field(None, gt=0)
    """Adapts `entropy_coefficient`, within [0, 1], to a mean entropy of so many nats: after each
    step it goes up by `entropy_coefficient_step` where the entropy is at most that, else down; and
    there is a bonus only where the last step's was at most that (Skywork-OR1)."""
    entropy_coefficient_step: float = Field(0.005, gt=0, le=1)
    """By how much an adaptive coefficient goes up or down in a step; see `entropy_target`."""
    top_entropy_quantile: float = Field(1.0, ge=0, le=1)
    """Share of a micro-batch's tokens, those of highest entropy, in the policy's term (and in the
    entropy bonus); the KL term has all of them. 1 keeps all (Wang et al. 2025 use .2)."""
    dynamic_sampling: bool = False
    """Replace groups whose completions all have one reward (DAPO)."""
    dars: Literal["et", "hw"] | None = None
    """A second stage of rollouts for prompts that fewer than half of the first solve: `et` until
    their advantages weigh as much as those of a prompt at one half, `hw` more, the harder."""
    dars_most: int | None = Field(None, ge=2)
    """Rollouts of a prompt in both stages; null is the authors' 32 for `et`, 64 for `hw`."""
    max_extra_generations: int = Field(3, ge=0)
    """Dynamic sampling: generations beyond the first that a step may spend on replacing groups."""
    overlong_punishment: bool = False
    """Punish completions that come near `rollout.max_tokens`, softly (DAPO)."""
    overlong_buffer: float = Field(0.2, gt=0, lt=1)
    """Share of `rollout.max_tokens` over which the soft overlong punishment grows."""
    steps: int = Field(1000, ge=1)
    """Optimiser steps."""
    prompts_per_step: int = Field(8, ge=1)
    """Problems in a step."""
    rollouts_per_prompt: int = Field(8, ge=2)
    """Completions of each, the group that advantages compare."""
    micro_batch: int | None = Field(None, ge=1)
    """Completions that go through the model at once; null: all of a process's step."""
    iterations: int = Field(1, ge=1)
    """Optimisation passes over one generation batch (the paper's and TRL's mu)."""
    steps_per_generation: int = Field(1, ge=1)
    """Optimiser steps whose completions are drawn together, before the first of them."""
    learning_rate: float = Field(5e-6, gt=0)
    """At the end of warm-up."""
    weight_decay: float = Field(0.01, ge=0)
    """AdamW's."""
    scheduler: Scheduler = "linear"
    """How the learning rate falls after warm-up."""
    warmup_ratio: float = Field(0.1, ge=0, lt=1)
    """Share of the steps over which the learning rate rises."""
    max_grad_norm: float = Field(1.0, gt=0)
    """Gradients are scaled down to this norm."""
    optimizer: Optimizer = "adamw_8bit"
    """`adamw`, or with a quarter of its memory `adamw_8bit`, which needs a GPU and bitsandbytes and
    can't be sharded by `fsdp2`."""
    gradient_checkpointing: bool = Field(True, json_schema_extra=COSMETIC)
    """Compute activations twice instead of keeping them: less memory, more time."""
    save_every: int = Field(50, ge=1, json_schema_extra=COSMETIC)
    """Optimiser steps from one checkpoint to the next."""
    save_minutes: float = Field(10, gt=0, json_schema_extra=COSMETIC)
    """A checkpoint after so many minutes, too; after more where saving would take over 5 % of the
    time."""
    keep_checkpoints: int | None = Field(2, ge=1, json_schema_extra=COSMETIC)
    """The last so many; null keeps all."""
    processes: int = Field(1, ge=1)
    """Data-parallel processes on this machine, unless a launcher has started some already."""
    accelerate: str | None = Field(None, json_schema_extra=COSMETIC)
    """Launch them by accelerate: `ddp`, `fsdp2`, `zero3`, or the file of a configuration."""
    allow_template_mismatch: bool = Field(False, json_schema_extra=COSMETIC)
    """Start from a run (`--init`) that was trained under another prompt template."""
    stop_when_stuck: bool = Field(True, json_schema_extra=COSMETIC)
    """Stop, not only warn, when completions are nearly all clipped or groups nearly all equal."""
    seed: int = 3407
    """Of the order of problems and of the completions drawn."""

    @property
    def steps_per_batch(self) -> int:
        """Optimiser steps from one generation of completions to the next."""
        return self.iterations * self.steps_per_generation

    def determinants(self) -> dict[str, Any]:
        """Without the settings of guided retries where there are none."""
        found = super().determinants()
        return {k: v for k, v in found.items() if k != "guided" or self.loss == "dpo"}

    @field_validator("advantage")
    @classmethod
    def _is_known(cls, name: str, info: ValidationInfo) -> str:
        require_name(ADVANTAGES_GROUP, name, tuple(BUILT_IN_ADVANTAGES), info)
        return name

    @field_validator("advantage_options")
    @classmethod
    def _are_the_advantages_own(cls, given: dict[str, Any], info: ValidationInfo) -> dict[str, Any]:
        name = info.data.get("advantage")
        return advantage_options(name, given).model_dump() if name in BUILT_IN_ADVANTAGES else given

    @property
    def options(self) -> AdvantageOptions:
        """The advantage's settings, typed; none of one that another package registers."""
        built_in = self.advantage in BUILT_IN_ADVANTAGES
        return (
            advantage_options(self.advantage, self.advantage_options) if built_in else NoOptions()
        )

    @model_validator(mode="after")
    def _settings_agree(self) -> RlSection:
        clips, found = self.loss in CLIPPING, []
        found += [*against_dars(self), *against_pacs(self), *against_dpo(self)]
        if self.delta is not None and not clips:
            found.append(f"delta is read by the losses {', '.join(CLIPPING)}, not by '{self.loss}'")
        if self.delta is not None and self.delta <= 1 + self.epsilon_high:
            found.append(
                f"delta {self.delta} isn't above 1 + epsilon_high {self.epsilon_high}, where the "
                "ratio is clipped already"
            )
        if not self.clip and (not clips or self.delta is not None):
            found.append(
                f"clip is false, and only the losses {', '.join(CLIPPING)} without delta can do "
                "without it"
            )
        if self.entropy_target is not None and self.entropy_coefficient > 1:
            found.append("entropy_coefficient is above 1, and entropy_target keeps it in [0, 1]")
        if found:
            raise ValueError("; ".join(found))
        return self


@dataclass(frozen=True)
class Batch:
    """The `completions` of one optimiser step = processes x `micro_batch` x `accumulation`."""

    completions: int
    micro_batch: int
    accumulation: int


def batch_of(rl: RlSection, processes: int) -> Batch:
    """How a step's completions are divided among `processes` and their micro-batches.

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
    return Batch(completions, micro_batch, completions // (micro_batch * processes))


class AnchorSection(Section):
    """What the policy is held to: q(x, y) pi_ref(y | x), Eqs. 3 to 6.

    `estimator` tells three methods apart that share a formula: `k3` as a loss term (the authors'),
    `k3-corrected` times the importance ratio, `reward` the exact gradient of Eq. 6.
    """

    kl: Literal["reverse", "forward", "none"] = "reverse"
    """Direction of the divergence to the anchor; `none` has no anchor."""
    beta: float = Field(0.05, ge=0)
    """Weight of the KL term."""
    schedule: Literal["constant", "cosine"] = "constant"
    """`cosine` takes beta from its value down to 0 over the training; a guide's force with it."""
    estimator: Literal["k3", "k3-corrected", "reward"] = "k3"
    """`k3`, `k3-corrected` or `reward`: which gradient the KL term has."""
    reference: Literal["sft", "base"] = "sft"
    """`sft`: the policy as it starts; `base`: the model without its adapter (LoRA), or before
    supervised warm-up (full tuning)."""
    reference_samples: int = Field(8, ge=1)
    """Forward KL: completions sampled once from the frozen reference, of each problem that the
    training comes to."""
