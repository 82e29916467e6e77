"""`sft`: supervised warm-up."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from sage_cli.settings.base import COSMETIC, Section

Optimizer = Literal["adamw_8bit", "adamw"]
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
    optimizer: Optimizer = "adamw_8bit"
    """`adamw`, or with a quarter of its memory `adamw_8bit`, which needs a GPU and bitsandbytes."""
    gradient_checkpointing: bool = True
    """Compute activations twice instead of keeping them: less memory, more time."""
    save_every: int = Field(200, ge=1, json_schema_extra=COSMETIC)
    """Optimiser steps from one checkpoint to the next."""
    save_minutes: float = Field(10, gt=0, json_schema_extra=COSMETIC)
    """A checkpoint after so many minutes, too; after more where saving would take over 5 % of the
    time."""
    seed: int = 3407
    """Of the order of demonstrations and of adapters' first weights."""
