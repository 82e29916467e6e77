"""The choice of next tokens, from logits and uniform numbers; and how probable given texts are."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor

from sage_cli.errors import DivergedError
from sage_cli.sampling.decoder.prompts import Indices, ranks
from sage_cli.sampling.sampler import SamplingParameters

if TYPE_CHECKING:
    from sage_cli.sampling.sampler import SamplingParameters

_GOLDEN = np.uint64(0x9E3779B97F4A7C15)
_MIX_1, _MIX_2 = np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB)


def uniforms(
    seeds_S: np.ndarray[Any, np.dtype[np.uint64]], steps_S: np.ndarray[Any, np.dtype[np.int64]]
) -> np.ndarray[Any, np.dtype[np.float64]]:
    """Return a number in [0, 1 - 2^-52] per sample, a function of its seed and step alone.

    It is the step-th output of SplitMix64 from the seed (Steele, Lea and Flood 2014, Fig. 17).
    """
    z_S = seeds_S + (steps_S.astype(np.uint64) + np.uint64(1)) * _GOLDEN
    z_S = (z_S ^ (z_S >> np.uint64(30))) * _MIX_1
    z_S = (z_S ^ (z_S >> np.uint64(27))) * _MIX_2
    z_S = z_S ^ (z_S >> np.uint64(31))
    uniforms_S: np.ndarray[Any, np.dtype[np.float64]] = (z_S >> np.uint64(12)) * 2.0**-52
    return uniforms_S


def choose_by_sample(
    logits_BV: Tensor,
    rows_S: Indices,
    uniforms_S: np.ndarray[Any, np.dtype[np.float64]],
    p: SamplingParameters,
) -> Indices:
    """Return token ids (S,). Samples may share rows: `rows_S` is each sample's row."""
    ranks_S, most = ranks(rows_S, len(logits_BV))
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
    require_finite(logits_BV)
    if p.temperature == 0:
        return logits_BV.argmax(dim=-1, keepdim=True).expand(uniforms_BN.shape)
    weights_BV = kept_weights(logits_BV, p)
    cumulative_BV = weights_BV.cumsum(dim=-1, dtype=torch.float64)
    targets_BN = torch.from_numpy(uniforms_BN).to(logits_BV.device) * cumulative_BV[:, -1:]
    return torch.searchsorted(cumulative_BV, targets_BN, right=True)


def require_finite(logits_BV: Tensor) -> None:
    """Raise DivergedError if a row's largest logit is NaN or infinite; -inf below it is allowed."""
    if not logits_BV.amax(dim=-1).isfinite().all():
        raise DivergedError(
            "the model gives NaN or infinity for the next token's logits: its weights are not "
            "finite, or overflow",
            "in training a lower learning rate may help; a checkpoint before the divergence can "
            "still be used",
        )


def kept_weights(logits_BV: Tensor, p: SamplingParameters) -> Tensor:
    """Return the tokens' weights at a positive temperature, the largest 1, and 0 for those cut."""
    logits_BV = logits_BV.float() / p.temperature
    weights_BV = (logits_BV - logits_BV.amax(dim=-1, keepdim=True)).exp_()
    if 0 < p.top_k < weights_BV.shape[-1]:
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
    before_BV = sorted_BV.cumsum(dim=-1, dtype=torch.float64) - sorted_BV
    outside_BV = before_BV >= top_p * sorted_BV.sum(dim=-1, keepdim=True, dtype=torch.float64)
    return weights_BV.scatter(-1, order_BV, sorted_BV.masked_fill(outside_BV, 0.0))


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
