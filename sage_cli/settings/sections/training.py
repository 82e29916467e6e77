"""`sft` and `anchor`: supervised warm-up, and what holds the policy in RL."""

from __future__ import annotations

from typing import Literal

from pydantic import Field, model_validator

from sage_cli.settings.base import COSMETIC, Section

Optimizer = Literal["adamw_8bit", "adamw"]
SftOptimizer = Literal["adamw_8bit", "adamw", "muon"]
Scheduler = Literal["linear", "cosine", "constant"]


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
    """Shuffle the demonstrations in each epoch."""
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
    """`muon`: `sage_cli.training.trainer.muon`, for small models that start from nothing."""
    gradient_checkpointing: bool = True
    """Compute activations twice instead of keeping them: less memory, more time."""
    save_every: int = Field(200, ge=1, json_schema_extra=COSMETIC)
    """Optimiser steps from one checkpoint to the next."""
    save_minutes: float = Field(10, gt=0, json_schema_extra=COSMETIC)
    """A checkpoint after so many minutes, too; after more where saving would take over 5 % of the
    time."""
    seed: int = 3407
    """Of the order of demonstrations and of adapters' first weights."""


class AnchorSection(Section):
    """The KL anchor q(x, y) pi_ref(y | x), Eqs. 3 to 6.

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
    reference: Literal["initial", "base"] = "initial"
    """`initial`: the policy as it starts; `base`: the model without its adapter (LoRA), or before
    supervised warm-up (full tuning)."""
    reference_samples: int = Field(8, ge=1)
    """Forward KL: completions sampled once from the frozen reference, of each problem that the
    training comes to."""

    @model_validator(mode="after")
    def _nothing_idle(self) -> AnchorSection:
        usual = type(self).model_fields["reference_samples"].default
        if self.kl != "forward" and self.reference_samples != usual:
            raise ValueError(
                f"reference_samples {self.reference_samples} are those of forward KL, and "
                f"anchor.kl is '{self.kl}' (add --kl forward, or leave it out)"
            )
        return self
