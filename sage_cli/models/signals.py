"""What a model says of a text that is given: surprisal and entropy of every completion token."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

_ROWS_AT_ONCE = 128
"""Tokens whose distribution over the vocabulary is held in single precision at a time."""


@torch.inference_mode()
def completion_signals(
    model: Any, prompt: Sequence[int], completion: Sequence[int], temperature: float = 1.0
) -> tuple[Tensor, Tensor]:
    """(logps_T, entropy_T) of a completion's tokens after a prompt, in nats, from one forward pass.

    `prompt` holds at least one token id; logits are divided by `temperature`, as in training.
    Entropies are those of Eq. 12, of the whole distribution each token was drawn from.
    """
    ids_1L = torch.tensor([[*prompt, *completion]], device=model.device)
    # the logits that predict a token stand one place before it
    kept = len(completion) + 1
    logits_TV = model(input_ids=ids_1L, use_cache=False, logits_to_keep=kept).logits[0, -kept:-1]
    chosen_T1 = ids_1L[0, len(prompt) :, None]
    logps, entropies = [logits_TV.new_empty(0).float()], [logits_TV.new_empty(0).float()]
    for start in range(0, len(completion), _ROWS_AT_ONCE):
        rows = slice(start, start + _ROWS_AT_ONCE)
        logps_RV = (logits_TV[rows].float() / temperature).log_softmax(dim=-1)
        logps.append(logps_RV.gather(1, chosen_T1[rows])[:, 0])
        # 0 log 0 = 0, also where a logit is minus infinity
        entropies.append(-torch.xlogy(logps_RV.exp(), logps_RV.exp()).sum(dim=-1))
    return torch.cat(logps).cpu(), torch.cat(entropies).cpu()
