"""The frozen reference model, and the check at step 0 that it is the right one."""

from __future__ import annotations

from contextlib import nullcontext
from typing import Any

import torch

from sage_cli.errors import TrainingError

_CHECKED_ROWS = 4
TOLERANCE = {torch.float64: 1e-6, torch.float32: 2e-4, torch.bfloat16: 5e-2, torch.float16: 1e-2}
"""Nats a token by which the same weights may differ when other rows are computed beside them.

On a GPU bfloat16 was seen to differ by 3.6e-3 on a small model; its 8 bits are 2^16 times coarser
than float32's 24.
"""


def choose_reference(model: Any, reference: str) -> None:
    """Make a LoRA policy's reference the adapter as it starts (`initial`) or no adapter (`base`).

    TRL copies the adapter it is given to "ref" and holds the policy to that copy; without the
    copy it switches the adapter off.
    """
    if reference == "base" and "ref" in getattr(model, "peft_config", {}):
        model.delete_adapter("ref")


def check_reference(trainer: Any, batch: dict[str, Any], reference: str) -> None:
    """Compare the reference's log-probabilities with separately computed ones, before any update.

    Under `initial` the reference is the policy itself as it starts, under `base` (LoRA) the model
    with its adapter off. Raises TrainingError when they differ.
    """
    model = trainer.accelerator.unwrap_model(trainer.model)
    adapted = hasattr(model, "disable_adapter")
    if "ref_per_token_logps" not in batch or (reference == "base" and not adapted):
        return
    names = ("prompt_ids", "prompt_mask", "completion_ids", "completion_mask")
    rows = {name: batch[name][:_CHECKED_ROWS] for name in names}
    with model.disable_adapter() if reference == "base" else nullcontext():
        expected_BT, _ = trainer.policy_signals(rows)
    mask_BT = batch["completion_mask"][:_CHECKED_ROWS].bool()
    found_BT = batch["ref_per_token_logps"][:_CHECKED_ROWS]
    off = (found_BT - expected_BT)[mask_BT].abs().mean().item()
    tolerance = TOLERANCE[arithmetic(trainer)]
    if not off <= tolerance:
        whose = "the policy as it starts" if reference == "initial" else "the base model"
        raise TrainingError(
            f"anchor.reference is '{reference}', but at step 0 the reference's log-probabilities "
            f"differ from those of {whose} by {off:.3g} nats a token (tolerance {tolerance})",
            "check that the reference's folder is the model the policy was loaded from",
        )


def arithmetic(trainer: Any) -> torch.dtype:
    """The type in which products are computed: the trainer's autocast, else the weights' own."""
    if trainer.args.bf16:
        return torch.bfloat16
    weights: torch.dtype = trainer.accelerator.unwrap_model(trainer.model).dtype
    return weights
