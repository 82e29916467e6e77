"""Keys and values of the tokens that rows have drawn themselves.

Shapes: layers Y, rows B, key-value heads H, tokens T, head size D.
"""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import pad

from sage_cli.sampling.prompts import PromptMemory
from sage_cli.sampling.rectangle import Indices

ROWS, BLOCK = 16, 32
_SLOW_PRODUCT = 400
"""CPU products of fewer multiplications run in torch's unblocked kernel, several times slower."""


class OwnTokens:
    """Buffers for the tokens that rows draw themselves, equally many in every row.

    They grow by doubling rows and by blocks of tokens, never by concatenation, and pass from a
    finished cohort to the next.
    """

    def __init__(self, like: PromptMemory) -> None:
        (heads, _, key_size), value_size = like.keys_Y[0].shape, like.values_Y[0].shape[-1]
        shape = (len(like.keys_Y), ROWS, heads, BLOCK)
        self._keys_YBHTD = like.keys_Y[0].new_zeros((*shape, key_size))
        self._values_YBHTD = like.values_Y[0].new_zeros((*shape, value_size))
        self._least = -(-_SLOW_PRODUCT // min(key_size, value_size))
        self.length = 0

    @property
    def capacity(self) -> int:
        """Rows that fit without growing."""
        return self._keys_YBHTD.shape[1]

    def begin(self, rows: int) -> None:
        """Forget what there was, and let `rows` rows fit."""
        self.length = 0
        self._make_room(rows, 0)

    def make_room(self) -> None:
        """Let one more token fit."""
        self._make_room(1, self.length + 1)

    def put(self, layer: int, k_BHD: Tensor, v_BHD: Tensor) -> tuple[Tensor, Tensor]:
        """Store one token of every row; returns keys and values up to it, (B, H, T, D).

        T can exceed the number of tokens by columns of older, finite content.
        """
        rows, now = k_BHD.shape[0], self.length
        self._keys_YBHTD[layer, :rows, :, now] = k_BHD
        self._values_YBHTD[layer, :rows, :, now] = v_BHD
        seen = min(max(now + 1, self._least), self._keys_YBHTD.shape[3])
        return self._keys_YBHTD[layer, :rows, :, :seen], self._values_YBHTD[layer, :rows, :, :seen]

    def take(self, sources_B: Indices) -> None:
        """Row b becomes what row `sources_B[b]` was; a row may be taken several times."""
        self._make_room(len(sources_B), self.length)
        changed = np.flatnonzero(sources_B != np.arange(len(sources_B)))
        if not len(changed):
            return
        device = self._keys_YBHTD.device
        to, origin = (torch.from_numpy(x).to(device) for x in (changed, sources_B[changed]))
        for buffer_YBHTD in (self._keys_YBHTD, self._values_YBHTD):
            buffer_YBHTD[:, to, :, : self.length] = buffer_YBHTD[:, origin, :, : self.length]

    def _make_room(self, rows: int, tokens: int) -> None:
        _, held_rows, _, held_tokens, _ = self._keys_YBHTD.shape
        more_rows = max(rows - held_rows, held_rows) if rows > held_rows else 0
        more_tokens = max(BLOCK, held_tokens // 2) if tokens > held_tokens else 0
        if more_rows or more_tokens:
            growth = (0, 0, 0, more_tokens, 0, 0, 0, more_rows)
            self._keys_YBHTD = pad(self._keys_YBHTD, growth)
            self._values_YBHTD = pad(self._values_YBHTD, growth)
