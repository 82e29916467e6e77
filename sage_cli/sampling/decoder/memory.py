"""The attention memory of a batch: prompts, shared by their samples, and each row's own tokens.

Shapes: layers Y, rows B, key-value heads H, queries per key-value head Q, tokens T, head size D.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import pad

from sage_cli.sampling.decoder.prompts import Indices, PromptMemory, SharedPrompts

ROWS, BLOCK = 16, 32
_SLOW_PRODUCT = 400
"""CPU matrix products of fewer multiplications use torch's unblocked kernel, which is slower."""


class AttentionMemory(Protocol):
    """Computes attention of a layer and stores the keys and values for later tokens."""

    def attend(self, layer: int, q_BHTD: Tensor, k_BHTD: Tensor, v_BHTD: Tensor) -> Tensor:
        """Return the attention (B, T, heads, D) of queries that are already scaled."""
        ...


class OwnTokens:
    """Buffers for the keys and values of sampled tokens, equally many in every row.

    They grow by doubling rows and by blocks of tokens, never by concatenation, and a finished
    cohort's are reused by the next.
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
        """Remove all tokens and make room for `rows` rows."""
        self.length = 0
        self._make_room(rows, 0)

    def make_room(self) -> None:
        """Make room for one more token."""
        self._make_room(1, self.length + 1)

    def put(self, layer: int, k_BHD: Tensor, v_BHD: Tensor) -> tuple[Tensor, Tensor]:
        """Store one token of every row; return keys and values up to it, (B, H, T, D).

        T can exceed the number of tokens by columns of older, finite content, which the caller
        masks.
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


class CohortMemory:
    """The memory of a cohort: its shared prompts and its rows' own tokens."""

    def __init__(self, prompts: SharedPrompts, own: OwnTokens) -> None:
        self.own, self._prompts = own, prompts

    def attend(self, layer: int, q_BHTD: Tensor, k_BHTD: Tensor, v_BHTD: Tensor) -> Tensor:
        """Return the attention of one new token per row to its prompt, its own past and itself."""
        rows, heads, _, _ = k_BHTD.shape
        keys_BHTD, values_BHTD = self.own.put(layer, k_BHTD[:, :, 0], v_BHTD[:, :, 0])
        q_BHQD = q_BHTD.reshape(rows, heads, -1, q_BHTD.shape[-1])
        own_BHQT = q_BHQD @ keys_BHTD.transpose(-1, -2)
        own_BHQT[..., self.own.length + 1 :] = -torch.inf  # columns of an earlier cohort
        prompt_BHQT = self._prompts.scores(layer, q_BHQD)
        scores_BHQT = torch.cat([prompt_BHQT, own_BHQT], dim=-1)
        # one softmax over prompt and own tokens, although their products are computed apart
        weights_BHQT = torch.softmax(scores_BHQT, dim=-1, dtype=torch.float32).to(q_BHQD.dtype)
        split = prompt_BHQT.shape[-1]
        out_BHQD = weights_BHQT[..., split:] @ values_BHTD
        out_BHQD += self._prompts.mix(layer, weights_BHQT[..., :split])
        return out_BHQD.reshape(rows, 1, -1, out_BHQD.shape[-1])

    def take(self, sources_B: Indices) -> None:
        """Row b becomes what row `sources_B[b]` was."""
        self.own.take(sources_B)
        self._prompts.take(sources_B)


class SideBySide:
    """Several memories in one forward call, their rows one after another."""

    def __init__(self, memories: Sequence[AttentionMemory], rows: Sequence[int]) -> None:
        self._memories, self._rows = memories, list(rows)

    def attend(self, layer: int, q_BHTD: Tensor, k_BHTD: Tensor, v_BHTD: Tensor) -> Tensor:
        """Return the attention of all rows, each by its own memory."""
        parts = zip(
            self._memories,
            torch.split(q_BHTD, self._rows),
            torch.split(k_BHTD, self._rows),
            torch.split(v_BHTD, self._rows),
            strict=True,
        )
        return torch.cat([memory.attend(layer, q, k, v) for memory, q, k, v in parts])
