"""Keys and values of the tokens that samples have drawn themselves.

Shapes: layers Y, rows B, key-value heads H, tokens T, head size D.
"""

from __future__ import annotations

from collections.abc import Sequence

from torch import Tensor
from torch.nn.functional import pad

from sage_cli.sampling.prompts import PromptMemory

BLOCK = 32
_SLOW_PRODUCT = 400
"""CPU products of fewer multiplications run in torch's unblocked kernel, several times slower."""


class OwnTokens:
    """Buffers for the tokens that rows draw themselves, equally many in every row.

    They grow by blocks, never by concatenation, and pass from a finished cohort to the next.
    """

    def __init__(self, like: PromptMemory, rows: int) -> None:
        (heads, _, key_size), value_size = like.keys_Y[0].shape, like.values_Y[0].shape[-1]
        shape = (len(like.keys_Y), rows, heads, BLOCK)
        self._keys_YBHTD = like.keys_Y[0].new_zeros((*shape, key_size))
        self._values_YBHTD = like.values_Y[0].new_zeros((*shape, value_size))
        self._least = -(-_SLOW_PRODUCT // min(key_size, value_size))
        self.length = 0

    @property
    def capacity(self) -> int:
        """Rows that fit."""
        return self._keys_YBHTD.shape[1]

    def make_room(self) -> None:
        """Let one more token fit."""
        if self.length == self._keys_YBHTD.shape[3]:
            more = max(BLOCK, self.length // 2)
            self._keys_YBHTD = pad(self._keys_YBHTD, (0, 0, 0, more))
            self._values_YBHTD = pad(self._values_YBHTD, (0, 0, 0, more))

    def put(self, layer: int, k_BHD: Tensor, v_BHD: Tensor) -> tuple[Tensor, Tensor]:
        """Store one token of every row; returns keys and values up to it, (B, H, T, D).

        T can exceed the number of tokens by columns of older, finite content.
        """
        rows, now = k_BHD.shape[0], self.length
        self._keys_YBHTD[layer, :rows, :, now] = k_BHD
        self._values_YBHTD[layer, :rows, :, now] = v_BHD
        seen = min(max(now + 1, self._least), self._keys_YBHTD.shape[3])
        return self._keys_YBHTD[layer, :rows, :, :seen], self._values_YBHTD[layer, :rows, :, :seen]

    def move(self, holes: Sequence[int], movers: Sequence[int]) -> None:
        """Copy rows `movers` into `holes`."""
        for buffer_YBHTD in (self._keys_YBHTD, self._values_YBHTD):
            buffer_YBHTD[:, holes, :, : self.length] = buffer_YBHTD[:, movers, :, : self.length]
