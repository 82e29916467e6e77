"""`sft`: how demonstrations are learnt."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from sage_cli.settings.section import COSMETIC, Section

Optimizer = Literal["adamw_8bit", "adamw"]
Scheduler = Literal["linear", "cosine", "constant"]


class SftSection(Section):
    """Supervised fine-tuning before RL (the paper's Table 7). With `enabled: false`, RL starts from
    the model as it is."""

    enabled: bool = True
    """Whether to run SFT before RL. If false, RL starts from the model as it is."""
    shipped: bool = Field(True, json_schema_extra=COSMETIC)
    """Whether RL starts from the base that comes with `sage`, which we trained with `sage sft`, if
    model, prompt, demonstrations and SFT settings are exactly those that it was trained with. If
    false, `sage rl` trains a base of its own. `sage sft` always does."""
    epochs: int = Field(2, ge=1)
    """Number of passes that SFT makes over the demonstrations."""
    steps: int | None = Field(None, ge=1)
    """Number of optimiser steps that SFT takes. If set, it replaces `epochs`."""
    batch_size: int = Field(1, ge=1)
    """Number of demonstrations that an optimiser step uses."""
    micro_batch: int | None = Field(None, ge=1)
    """Number of demonstrations per forward pass; null means all of a step."""
    shuffle: bool = True
    """Whether the demonstrations are shuffled in each epoch."""
    max_length: int = Field(2048, ge=8)
    """Length of the longest demonstration, in tokens. Longer ones are left out."""
    loss: Literal["completion", "text"] | None = None
    """Tokens that the loss covers: `completion` for those of the completion, `text` for prompt and
    completion. null uses `completion` for data sets, and for generated demonstrations what
    their generator says."""
    learning_rate: float = Field(2e-4, gt=0)
    """Peak learning rate, which is reached at the end of the learning rate's warm-up."""
    weight_decay: float = Field(0.01, ge=0)
    """Weight decay that AdamW applies."""
    scheduler: Scheduler = "linear"
    """Schedule by which the learning rate falls after its warm-up."""
    warmup_steps: int | None = Field(5, ge=0)
    """Number of optimiser steps over which the learning rate rises (its warm-up)."""
    warmup_ratio: float = Field(0.0, ge=0, lt=1)
    """Share of the steps over which the learning rate rises, used if `warmup_steps` is null."""
    max_grad_norm: float = Field(1.0, gt=0)
    """Norm to which larger gradients are scaled down."""
    optimizer: Optimizer = "adamw_8bit"
    """Optimiser: `adamw`, or `adamw_8bit`, which needs a quarter of its memory, but also a GPU and
    bitsandbytes."""
    gradient_checkpointing: bool = True
    """Whether to recompute activations in the backward pass instead of keeping them, which saves
    memory and costs time."""
    save_every: int = Field(200, ge=1, json_schema_extra=COSMETIC)
    """Number of optimiser steps after which a checkpoint is written."""
    save_minutes: float = Field(10, gt=0, json_schema_extra=COSMETIC)
    """Number of minutes after which a checkpoint is written in any case. It grows if saving would
    take more than 5% of the time."""
    seed: int = 3407
    """Seed with which the demonstrations are shuffled and the weights of LoRA adapters
    initialised."""
