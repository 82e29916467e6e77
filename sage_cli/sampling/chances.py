"""The probability with which given texts are sampled, under a policy's own decoding."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from sage_cli.metrics.counts import FloatArray
from sage_cli.sampling.decoder.token_choice import kept_weights
from sage_cli.sampling.sampler import SamplingParameters

NUMBERS_AT_ONCE = 1 << 27
"""Limit of the logits of a pass: rows x tokens x vocabulary."""
TOKENS_AT_ONCE = 1 << 22
"""Limit of the numbers that decoding holds in single precision at a time: tokens x vocabulary."""
ROWS_AT_ONCE = 256

Ids = tuple[int, ...]
Pair = tuple[Ids, Ids]
"""Token ids of a prompt, and of a text that follows it."""


@torch.inference_mode()
def text_logps(
    model: Any, pairs: Sequence[Pair], decodings: Sequence[SamplingParameters]
) -> FloatArray:
    """Return the log-probability of sampling each text after its prompt, shape (D, pairs).

    One pass over the model serves all decodings. At each token the probability is renormalised
    over what the decoding keeps; -inf for a text with a token that isn't kept, or longer than
    `max_tokens`.
    """
    logps_DR = np.zeros((len(decodings), len(pairs)))
    order = sorted(range(len(pairs)), key=lambda row: _length(pairs[row]))
    for rows in _batches(order, pairs, int(model.config.vocab_size)):
        logps_DR[:, rows] = _of_batch(model, [pairs[row] for row in rows], decodings)
    for place, decoding in enumerate(decodings):
        too_long = [row for row, (_, text) in enumerate(pairs) if len(text) > decoding.max_tokens]
        logps_DR[place, too_long] = -np.inf
    return logps_DR


def _batches(order: Sequence[int], pairs: Sequence[Pair], vocabulary: int) -> Iterator[list[int]]:
    """Yield rows of ascending length in batches whose logits fit, at least one a batch."""
    batch: list[int] = []
    for row in order:
        # this row is the longest so far, to which the others are padded
        most = min(ROWS_AT_ONCE, max(1, NUMBERS_AT_ONCE // (_length(pairs[row]) * vocabulary)))
        if batch and len(batch) >= most:
            yield batch
            batch = []
        batch.append(row)
    if batch:
        yield batch


def _of_batch(
    model: Any, pairs: Sequence[Pair], decodings: Sequence[SamplingParameters]
) -> FloatArray:
    """Return (D, B) from one pass; shorter rows are padded behind their end."""
    length = max(map(_length, pairs))
    filled = [[*prompt, *text, *[0] * (length - _length((prompt, text)))] for prompt, text in pairs]
    ids_BT = torch.tensor(filled, device=model.device)
    # the logits that predict a token stand one place before it
    first = min(len(prompt) for prompt, _ in pairs) - 1
    logits_BTV = model(input_ids=ids_BT, use_cache=False, logits_to_keep=length - first).logits
    lengths = [len(text) for _, text in pairs]
    row_N = torch.repeat_interleave(torch.arange(len(pairs)), torch.tensor(lengths))
    places = [torch.arange(len(text)) + len(prompt) for prompt, text in pairs]
    place_N = torch.cat(places) if places else torch.empty(0, dtype=torch.long)
    logps_DB = torch.zeros(len(decodings), len(pairs), dtype=torch.float64)
    at_once = max(1, TOKENS_AT_ONCE // logits_BTV.shape[-1])
    cuts = list(range(at_once, len(row_N), at_once))
    for rows_C, places_C in torch.stack([row_N, place_N]).tensor_split(cuts, dim=1):
        logits_CV = logits_BTV[rows_C.to(model.device), (places_C - 1 - first).to(model.device)]
        chosen_C = ids_BT[rows_C.to(model.device), places_C.to(model.device)]
        for place, decoding in enumerate(decodings):
            logps_C = token_logps(logits_CV, chosen_C, decoding)
            logps_DB[place].index_add_(0, rows_C, logps_C.double().cpu())
    return logps_DB.numpy()


def token_logps(logits_CV: Tensor, chosen_C: Tensor, p: SamplingParameters) -> Tensor:
    """Return the log-probability (C,) that each chosen token is sampled, -inf where it is cut."""
    if p.temperature == 0:
        return torch.where(logits_CV.argmax(dim=-1) == chosen_C, 0.0, -torch.inf)
    if p.top_p == 1 and p.top_k == 0 and p.min_p == 0:
        scaled_CV = logits_CV.float() / p.temperature
        chosen = scaled_CV.gather(1, chosen_C[:, None])[:, 0]
        return chosen - scaled_CV.logsumexp(dim=-1)
    weights_CV = kept_weights(logits_CV, p)
    chosen = weights_CV.gather(1, chosen_C[:, None])[:, 0].double()
    return chosen.log() - weights_CV.sum(dim=-1, dtype=torch.float64).log()


def _length(pair: Pair) -> int:
    return len(pair[0]) + len(pair[1])
