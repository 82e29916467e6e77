"""Noise that depends on (seed, step, row) alone and leaves the global generators untouched."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

_TINY = 2.0**-54


def row_noise(like_BT: Tensor, row_ids_B: Tensor | None, seed: int, step: int) -> Tensor:
    """Uniform draws u_2BT, two for every token, on the device and in the type of `like_BT`.

    Row b's draws come from a stream of its own, and token t's don't depend on how long the row
    was padded: the same row gets the same noise in any micro-batch and on any process.
    """
    rows, tokens = like_BT.shape
    ids = range(rows) if row_ids_B is None else row_ids_B.tolist()
    draws_BT2 = np.stack([_stream(seed, step, row).random((tokens, 2)) for row in ids])
    return torch.from_numpy(draws_BT2).permute(2, 0, 1).to(like_BT)


def to_normal(uniform: Tensor) -> Tensor:
    """Standard normal draws from uniform ones, by the inverse of the distribution function."""
    finite = uniform.double().clamp(_TINY, 1 - _TINY)
    normal: Tensor = torch.special.ndtri(finite)
    return normal.to(uniform)


def _stream(seed: int, step: int, row: int) -> np.random.Generator:
    return np.random.default_rng((seed, step, row))
