"""Scores of a given text under a model: surprisal and entropy of every completion token."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

_ROWS_AT_ONCE = 128
"""Tokens whose distribution over the vocabulary is held in single precision at a time."""

Ids = Sequence[int]


_LEAST_EXPONENT = 2.0**-20
"""Stands for an exponent of 0: logits that differ by 40 differ by 4e-5 then."""


def tilted_temperature(temperature: float, exponent: float) -> float:
    """Return the temperature at which a model is p^exponent, normalised, p at `temperature`."""
    return temperature / max(exponent, _LEAST_EXPONENT)


def completion_signals(
    model: Any, prompt: Ids, completion: Ids, temperature: float = 1.0
) -> tuple[Tensor, Tensor]:
    """(logps_T, entropy_T) of a completion's tokens after a prompt, in nats, from one forward pass.

    `prompt` holds at least one token id; logits are divided by `temperature`, as in training.
    Entropies are those of Eq. 12, of the whole distribution each token was sampled from.
    """
    return batch_signals(model, [(prompt, completion)], temperature)[0]


@torch.inference_mode()
def batch_signals(
    model: Any, rows: Sequence[tuple[Ids, Ids]], temperature: float = 1.0
) -> list[tuple[Tensor, Tensor]]:
    """`completion_signals` of several (prompt, completion), from one forward pass.

    Shorter rows are padded behind their end, where causal attention doesn't look.
    """
    length = max(len(prompt) + len(completion) for prompt, completion in rows)
    filled = [[*p, *c, *[0] * (length - len(p) - len(c))] for p, c in rows]
    ids_BT = torch.tensor(filled, device=model.device)
    # the logits that predict a token stand one place before it
    first = min(len(prompt) for prompt, _ in rows) - 1
    logits_BTV = model(input_ids=ids_BT, use_cache=False, logits_to_keep=length - first).logits
    signals = []
    for row, (prompt, completion) in enumerate(rows):
        begin = len(prompt) - 1 - first
        logits_TV = logits_BTV[row, begin : begin + len(completion)]
        chosen_T = ids_BT[row, len(prompt) : len(prompt) + len(completion)]
        signals.append(_signals(logits_TV, chosen_T, temperature))
    return signals


def _signals(logits_TV: Tensor, chosen_T: Tensor, temperature: float) -> tuple[Tensor, Tensor]:
    logps, entropies = [logits_TV.new_empty(0).float()], [logits_TV.new_empty(0).float()]
    for start in range(0, len(chosen_T), _ROWS_AT_ONCE):
        rows = slice(start, start + _ROWS_AT_ONCE)
        logps_TV = (logits_TV[rows].float() / temperature).log_softmax(dim=-1)
        logps.append(logps_TV.gather(1, chosen_T[rows, None])[:, 0])
        # 0 log 0 = 0, also where a logit is minus infinity
        entropies.append(-torch.xlogy(logps_TV.exp(), logps_TV.exp()).sum(dim=-1))
    return torch.cat(logps).cpu(), torch.cat(entropies).cpu()
