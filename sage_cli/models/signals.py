"""Scores of a given text under a model: surprisal and entropy of every completion token."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, TypeVar

import torch
from torch import Tensor

from sage_cli.guides.token_signals import Measure

TOKENS_AT_ONCE = 128
"""Tokens whose distribution over the vocabulary is held in single precision at a time."""
NUMBERS_AT_ONCE = 1 << 27
"""Limit of the logits of a pass: rows x tokens x vocabulary."""
ROWS_AT_ONCE = 256

_Ids = Sequence[int]
_Row = TypeVar("_Row", bound=tuple[_Ids, _Ids])


@torch.inference_mode()
def batch_signals(
    model: Any,
    rows: Sequence[tuple[_Ids, _Ids]],
    temperature: float = 1.0,
    measures: Sequence[Measure] = (),
) -> list[tuple[Tensor, ...]]:
    """Return (logps_T, entropy_T) of each (prompt, completion), in nats, from one forward pass.

    What `measures` say of the logits follows them, in their order.

    A prompt holds at least one token id; logits are divided by `temperature`, as in training.
    Entropies are those of Eq. 12, of the whole distribution each token was sampled from.
    """
    length = max(map(_length, rows))
    # shorter rows are padded behind their end, where causal attention doesn't look
    filled = [[*p, *c, *[0] * (length - len(p) - len(c))] for p, c in rows]
    ids_BT = torch.tensor(filled, device=model.device)
    # the logits that predict a token stand one place before it
    first = min(len(prompt) for prompt, _ in rows) - 1
    logits_BTV = model(input_ids=ids_BT, use_cache=False, logits_to_keep=length - first).logits
    signals = []
    for row, (prompt, completion) in enumerate(rows):
        begin, end = len(prompt), len(prompt) + len(completion)
        logits_TV = logits_BTV[row, begin - 1 - first : end - 1 - first]
        signals.append(_signals(logits_TV, ids_BT[row, begin:end], temperature, measures))
    return signals


def batches(rows: Sequence[_Row], vocabulary: int) -> Iterator[list[_Row]]:
    """Yield (prompt, completion) by ascending length in batches whose logits fit, each once."""
    batch: list[_Row] = []
    for row in sorted(dict.fromkeys(rows), key=_length):
        # this row is the longest so far, to which the others are padded
        most = min(ROWS_AT_ONCE, max(1, NUMBERS_AT_ONCE // (_length(row) * vocabulary)))
        if batch and len(batch) >= most:
            yield batch
            batch = []
        batch.append(row)
    if batch:
        yield batch


def _signals(
    logits_TV: Tensor, chosen_T: Tensor, temperature: float, measures: Sequence[Measure]
) -> tuple[Tensor, ...]:
    empty_T = logits_TV.new_empty(0).float()
    signals = [(empty_T,) * (2 + len(measures))]
    for start in range(0, len(chosen_T), TOKENS_AT_ONCE):
        rows = slice(start, start + TOKENS_AT_ONCE)
        scaled_TV = logits_TV[rows].float() / temperature
        logps_TV = scaled_TV.log_softmax(dim=-1)
        signals.append(
            (
                logps_TV.gather(1, chosen_T[rows, None])[:, 0],
                # 0 log 0 = 0, also where a logit is minus infinity
                -torch.xlogy(logps_TV.exp(), logps_TV.exp()).sum(dim=-1),
                *(measure(scaled_TV, chosen_T[rows]) for measure in measures),
            )
        )
    return tuple(torch.cat(parts).cpu() for parts in zip(*signals, strict=True))


def _length(row: tuple[_Ids, _Ids]) -> int:
    return len(row[0]) + len(row[1])
