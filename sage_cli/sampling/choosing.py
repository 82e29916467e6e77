"""The choice of each sample's next token, by random numbers of its own."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import pad

from sage_cli.errors import (
    DivergedError,
)
from sage_cli.sampling.sampler import (
    SamplingParameters,
)
from sage_cli.sampling.token_memory import (
    Indices,
    ranks,
)
from sage_cli.splitmix import GOLDEN, mixed, shifted

_CACHED, _BLOCK = 2**21, 128


def sample_uniforms(
    seeds_S: np.ndarray[Any, np.dtype[np.uint64]], steps_S: np.ndarray[Any, np.dtype[np.int64]]
) -> np.ndarray[Any, np.dtype[np.float64]]:
    """Return a number in [0, 1 - 2^-52] per sample, a function of its seed and step alone.

    It is the step-th output of SplitMix64 from the seed.
    """
    # SplitMix64's n-th output is the mixing function at seed + (n + 1) * GOLDEN, so that a step's
    # number needs no earlier one: a sample that starts again, or alone, draws the same numbers. The
    # sum overflows on purpose: SplitMix64 counts modulo 2^64.
    z_S = mixed(seeds_S.view(np.int64) + (steps_S + 1) * GOLDEN)
    # 52 bits: the upper ones are the best mixed, and a float64 in [1/2, 1) has a resolution of
    # 2^-53, so that no number is rounded to 1, behind which inversion would find no token
    uniforms_S: np.ndarray[Any, np.dtype[np.float64]] = np.ldexp(shifted(z_S, 12), -52)
    return uniforms_S


def choose_by_sample(
    logits_BV: Tensor,
    rows_S: Indices,
    uniforms_S: np.ndarray[Any, np.dtype[np.float64]],
    p: SamplingParameters,
) -> Indices:
    """Return token ids (S,). Samples may share rows: `rows_S` is each sample's row."""
    ranks_S, most = ranks(rows_S, len(logits_BV))
    # samples that share a row differ in their number alone: a row's softmax and its cumulative sum
    # are computed once, and searched once for each of its samples
    uniforms_BN = np.zeros((len(logits_BV), most))
    uniforms_BN[rows_S, ranks_S] = uniforms_S
    tokens_S: Indices = choose(logits_BV, uniforms_BN, p).cpu().numpy()[rows_S, ranks_S]
    return tokens_S


def choose(
    logits_BV: Tensor, uniforms_BN: np.ndarray[Any, np.dtype[np.float64]], p: SamplingParameters
) -> Tensor:
    """Return N token ids per row, (B, N), by inverting its cumulative distribution at each number.

    Temperature, top-k, top-p and min-p are applied in the order of transformers' `generate`. At
    temperature 0 the first of the most likely tokens is chosen. Raises DivergedError if a logit
    that decides is NaN or infinite.
    """
    require_finite_logits(logits_BV)
    if p.temperature == 0:
        # argmax returns the first of equal logits, whatever the batch is; at temperature 0 all
        # samples of a row stay one row, and cost as much as one
        return logits_BV.argmax(dim=-1, keepdim=True).expand(uniforms_BN.shape)
    numbers_BN = torch.from_numpy(uniforms_BN).to(logits_BV.device)
    # on a CPU a few rows at a time, whose weights stay in its cache
    rows = len(logits_BV) if logits_BV.is_cuda else max(1, _CACHED // logits_BV.shape[-1])
    parts = zip(torch.split(logits_BV, rows), torch.split(numbers_BN, rows), strict=True)
    return torch.cat([_inverted(kept_weights(logits, p), numbers) for logits, numbers in parts])


def _inverted(weights_BV: Tensor, numbers_BN: Tensor) -> Tensor:
    """Return the first token whose cumulative weight exceeds each number of the total, (B, N).

    A large vocabulary is summed by blocks of tokens: cumulative weights are needed in one of them.
    """
    vocabulary = weights_BV.shape[-1]
    if vocabulary < _BLOCK**2:
        # in float32 the cumulative sum of 150,000 weights stops growing where a weight is below the
        # sum's last bit: the rarest tokens could not be chosen at all
        ends_BV = weights_BV.cumsum(dim=-1, dtype=torch.float64)
        # right=True: the first token whose end exceeds the number, so that a token of weight 0,
        # whose end equals the one before, is never chosen, not even by the number 0. The total
        # scales the number instead of the weights, which saves a division per token.
        return torch.searchsorted(ends_BV, numbers_BN * ends_BV[:, -1:], right=True)
    if vocabulary % _BLOCK:
        # padding has weight 0, so that it is never chosen
        weights_BV = pad(weights_BV, (0, -vocabulary % _BLOCK))
    blocks_BKC = weights_BV.view(len(weights_BV), -1, _BLOCK)
    ends_BK = blocks_BKC.sum(dim=-1, dtype=torch.float64).cumsum(dim=-1)
    targets_BN = numbers_BN * ends_BK[:, -1:]
    chosen_BN = torch.searchsorted(ends_BK, targets_BN, right=True)
    # what is left of the number once the blocks before the chosen one are subtracted
    left_BN = targets_BN - pad(ends_BK, (1, 0)).gather(1, chosen_BN)
    block_BNC = blocks_BKC.gather(1, chosen_BN[..., None].expand(-1, -1, _BLOCK))
    ends_BNC = block_BNC.cumsum(dim=-1, dtype=torch.float64)
    # a block's sum and its last cumulative weight are rounded differently: no token lies behind it
    left_BN1 = torch.minimum(left_BN[..., None], ends_BNC[..., -1:] * (1 - 2**-52))
    return chosen_BN * _BLOCK + torch.searchsorted(ends_BNC, left_BN1, right=True)[..., 0]


def require_finite_logits(logits_BV: Tensor) -> None:
    """Raise DivergedError if a row's largest logit is NaN or infinite; -inf below it is allowed."""
    if not logits_BV.amax(dim=-1).isfinite().all():
        raise DivergedError(
            "the model's logits for the next token are NaN or infinite: its weights "
            "are not finite, or overflow",
            "a lower learning rate may help in training; a checkpoint before the "
            "divergence can still be used",
        )


def kept_weights(logits_BV: Tensor, p: SamplingParameters) -> Tensor:
    """Return the tokens' weights at a positive temperature, the largest 1, and 0 for those cut."""
    # float32 before the division: in bfloat16, with 8 bits, neighbouring logits of a large
    # vocabulary would become equal
    logits_BV = logits_BV.float() / p.temperature
    weights_BV = (logits_BV - logits_BV.amax(dim=-1, keepdim=True)).exp_()
    if 0 < p.top_k < weights_BV.shape[-1]:
        # tokens as likely as the k-th stay, even if these are more than k: `generate` does so, too,
        # and the choice among them would otherwise depend on the order of a sort
        kth_B1 = weights_BV.topk(p.top_k, dim=-1).values[:, -1:]
        weights_BV.masked_fill_(weights_BV < kth_B1, 0.0)
    if p.top_p < 1:
        weights_BV = _nucleus(weights_BV, p.top_p)
    if p.min_p > 0:
        weights_BV.masked_fill_(weights_BV < p.min_p, 0.0)  # the largest weight is 1
    return weights_BV


def _nucleus(weights_BV: Tensor, top_p: float) -> Tensor:
    """Return the weights of the most likely tokens whose mass reaches `top_p`, 0 for the others."""
    sorted_BV, order_BV = weights_BV.sort(dim=-1, descending=True, stable=True)
    # a token is kept if the mass before it is below top_p, so that the token that crosses the
    # threshold is kept, and at least one is
    before_BV = sorted_BV.cumsum(dim=-1, dtype=torch.float64) - sorted_BV
    outside_BV = before_BV >= top_p * sorted_BV.sum(dim=-1, keepdim=True, dtype=torch.float64)
    return weights_BV.scatter(-1, order_BV, sorted_BV.masked_fill(outside_BV, 0.0))
