"""The policy's log-probabilities and entropies of completions that are there already."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor


@torch.no_grad()
def policy_signals(
    trainer: Any, batch: dict[str, Any], rows: slice, *, batch_size: int | None = None
) -> tuple[Tensor, Tensor]:
    """(logps_BT, entropy_BT) of some of the batch's rows, `batch_size` at once (all without it)."""
    ids, mask = (
        torch.cat([batch[f"prompt_{name}"], batch[f"completion_{name}"]], dim=1)[rows]
        for name in ("ids", "mask")
    )
    tokens = batch["completion_ids"].shape[1]
    logps_BT, entropy_BT, _ = trainer._get_per_token_logps_and_entropies(
        trainer.model, ids, mask, tokens, batch_size, compute_entropy=True
    )
    return logps_BT, entropy_BT
