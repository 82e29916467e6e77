"""Measures of completions' hidden states, which are too large to be stored."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from sage_cli.methods.parts.inputs import Measure


@torch.no_grad()
def hidden_measures(trainer: Any, batch: dict[str, Any], measure: Measure) -> Tensor:
    """`measure` of each of this process's completions, on the last layer's normed states."""
    model = trainer.accelerator.unwrap_model(trainer.model)
    decoder = (model.get_base_model() if hasattr(model, "get_base_model") else model).base_model
    ids, mask = (
        torch.cat([batch[f"prompt_{name}"], batch[f"completion_{name}"]], dim=1)
        for name in ("ids", "mask")
    )
    lengths = batch["completion_mask"].sum(dim=1).tolist()
    tokens, found = batch["completion_ids"].shape[1], []
    at_once = trainer.args.per_device_train_batch_size
    for begin in range(0, len(ids), at_once):
        rows = slice(begin, begin + at_once)
        with trainer.accelerator.autocast():
            states = decoder(input_ids=ids[rows], attention_mask=mask[rows], use_cache=False)
        hidden_BTD = states.last_hidden_state[:, -tokens:]
        found += [
            measure(hidden_TD[:length].float())
            for hidden_TD, length in zip(hidden_BTD, lengths[rows], strict=True)
        ]
    return torch.stack(found)
