"""The probability with which given texts are sampled, under a policy's own decoding."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from sage_cli.metrics.counts import FloatArray
from sage_cli.models.signals import TOKENS_AT_ONCE, batches, completion_logits
from sage_cli.sampling.decoder.token_choice import kept_weights, require_finite
from sage_cli.sampling.sampler import SamplingParameters

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
    `max_tokens`. Raises DivergedError if the model gives NaN.
    """
    found: dict[Pair, list[float]] = {}
    for batch in batches(pairs, int(model.config.vocab_size)):
        for pair, read in zip(batch, completion_logits(model, batch), strict=True):
            require_finite(read[0])
            found[pair] = [_text_logp(*read, decoding) for decoding in decodings]
    return np.array([found[pair] for pair in pairs]).T


def _text_logp(logits_TV: Tensor, ids_T: Tensor, p: SamplingParameters) -> float:
    if len(ids_T) > p.max_tokens:
        return float("-inf")
    portions = [slice(i, i + TOKENS_AT_ONCE) for i in range(0, len(ids_T), TOKENS_AT_ONCE)]
    return sum(float(token_logps(logits_TV[t], ids_T[t], p).double().sum()) for t in portions)


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
