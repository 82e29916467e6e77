"""The guide's microscope: what q did to the tokens of one step."""

from __future__ import annotations

import math

import numpy as np
import torch
from torch import Tensor

from sage_cli.guides.guide import Guide

PERCENTILES = (50, 75, 90, 95, 99)


def guide_statistics(log_q_T: Tensor, guide: Guide) -> dict[str, float]:
    """Mean, minimum and maximum of q, shares of tokens shaped and clamped, mean log q.

    `log_q_T` holds the tokens of all completions, flat. The mean log q is what the guide gives
    back of the KL (Eq. 8). Without a token everything is NaN.
    """
    log_q_T = log_q_T.double()
    if not len(log_q_T):
        return dict.fromkeys(("q_mean", "q_min", "q_max", "shaped", "clamped", "log_q"), math.nan)
    q_T = log_q_T.exp()
    return {
        "q_mean": q_T.mean().item(),
        "q_min": q_T.min().item(),
        "q_max": q_T.max().item(),
        "shaped": (log_q_T != 0).double().mean().item(),
        "clamped": clamped(log_q_T, guide).double().mean().item(),
        "log_q": log_q_T.mean().item(),
    }


def clamped(log_q: Tensor, guide: Guide) -> Tensor:
    """Which of the shaped tokens stand at an end of the guide's clamp; any shape."""
    q, slack = log_q.double().exp(), 1e-6
    at_an_end: Tensor = (q >= guide.q_max - slack) | (q <= guide.q_min + slack)
    return at_an_end & (log_q != 0)


def entropy_percentiles(entropy_T: Tensor) -> dict[str, float]:
    """Percentiles of the token entropies in nats, by which a threshold tau can be chosen."""
    if not len(entropy_T):
        return {f"p{percent}": math.nan for percent in PERCENTILES}
    positions = torch.tensor(PERCENTILES, dtype=torch.float64) / 100 * (len(entropy_T) - 1)
    low, high = positions.floor().long(), positions.ceil().long()
    # a step has tens of millions of tokens, of which ten places are needed: sorting takes seconds
    placed = np.partition(entropy_T.cpu().numpy(), np.unique(torch.cat([low, high]).numpy()))
    placed_T = torch.from_numpy(placed).double()
    values = torch.lerp(placed_T[low], placed_T[high], positions - low)
    return {
        f"p{percent}": value for percent, value in zip(PERCENTILES, values.tolist(), strict=True)
    }
