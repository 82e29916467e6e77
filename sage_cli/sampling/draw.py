"""Choosing the next token: logits and one uniform number per row in, token ids out."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor

if TYPE_CHECKING:
    from sage_cli.sampling.sampler import SamplingParameters

_GOLDEN = np.uint64(0x9E3779B97F4A7C15)
_MIX_1, _MIX_2 = np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB)


def uniforms(
    seeds_B: np.ndarray[Any, np.dtype[np.uint64]], steps_B: np.ndarray[Any, np.dtype[np.int64]]
) -> np.ndarray[Any, np.dtype[np.float64]]:
    """One number in [0, 1 - 2^-52] per row, a function of the row's seed and step alone.

    The step-th output of SplitMix64 started at the seed (Steele, Lea and Flood 2014, Fig. 17).
    """
    z_B = seeds_B + (steps_B.astype(np.uint64) + np.uint64(1)) * _GOLDEN
    z_B = (z_B ^ (z_B >> np.uint64(30))) * _MIX_1
    z_B = (z_B ^ (z_B >> np.uint64(27))) * _MIX_2
    z_B = z_B ^ (z_B >> np.uint64(31))
    uniforms_B: np.ndarray[Any, np.dtype[np.float64]] = (z_B >> np.uint64(12)) * 2.0**-52
    return uniforms_B


def choose(
    logits_BV: Tensor, uniforms_B: np.ndarray[Any, np.dtype[np.float64]], p: SamplingParameters
) -> Tensor:
    """Sample token ids (B,) by inverting the cumulative distribution at `uniforms_B`.

    Temperature, then top-k, top-p, min-p, in the order of transformers' `generate`. At
    temperature 0 the first most likely token.
    """
    if p.temperature == 0:
        return logits_BV.argmax(dim=-1)
    logits_BV = logits_BV.float() / p.temperature
    weights_BV = (logits_BV - logits_BV.amax(dim=-1, keepdim=True)).exp_()
    if 0 < p.top_k < weights_BV.shape[-1]:
        kth_B1 = weights_BV.topk(p.top_k, dim=-1).values[:, -1:]
        weights_BV.masked_fill_(weights_BV < kth_B1, 0.0)
    if p.top_p < 1:
        weights_BV = _nucleus(weights_BV, p.top_p)
    if p.min_p > 0:
        weights_BV.masked_fill_(weights_BV < p.min_p, 0.0)  # the largest weight is 1
    cumulative_BV = weights_BV.cumsum(dim=-1, dtype=torch.float64)
    uniforms_B1 = torch.from_numpy(uniforms_B).to(logits_BV.device).unsqueeze(-1)
    target_B1 = uniforms_B1 * cumulative_BV[:, -1:]
    return torch.searchsorted(cumulative_BV, target_B1, right=True).squeeze(-1)


def _nucleus(weights_BV: Tensor, top_p: float) -> Tensor:
    """Keep the most likely tokens whose mass reaches `top_p`, the one that crosses it included."""
    sorted_BV, order_BV = weights_BV.sort(dim=-1, descending=True, stable=True)
    before_BV = sorted_BV.cumsum(dim=-1, dtype=torch.float64) - sorted_BV
    outside_BV = before_BV >= top_p * sorted_BV.sum(dim=-1, keepdim=True, dtype=torch.float64)
    return weights_BV.scatter(-1, order_BV, sorted_BV.masked_fill(outside_BV, 0.0))
