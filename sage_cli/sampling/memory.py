"""What a batch of rows attends to: a prompt kept once per problem, a row's own tokens.

Shapes: rows B, key-value heads H, queries per key-value head Q, tokens T, head size D.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import torch
from torch import Tensor

from sage_cli.sampling.own_tokens import OwnTokens
from sage_cli.sampling.prompts import SharedPrompts
from sage_cli.sampling.rectangle import Indices


class AttentionMemory(Protocol):
    """Attends for one layer and keeps what later tokens need."""

    def attend(self, layer: int, q_BHTD: Tensor, k_BHTD: Tensor, v_BHTD: Tensor) -> Tensor:
        """Attention with queries that are scaled already; returns (B, T, heads, D)."""
        ...


class CohortMemory:
    """What a cohort attends to: its shared prompts and its rows' own tokens."""

    def __init__(self, prompts: SharedPrompts, own: OwnTokens) -> None:
        self.own, self._prompts = own, prompts

    def attend(self, layer: int, q_BHTD: Tensor, k_BHTD: Tensor, v_BHTD: Tensor) -> Tensor:
        """Attention of one new token per row to its prompt, its own past and itself."""
        rows, heads, _, _ = k_BHTD.shape
        keys_BHTD, values_BHTD = self.own.put(layer, k_BHTD[:, :, 0], v_BHTD[:, :, 0])
        q_BHQD = q_BHTD.reshape(rows, heads, -1, q_BHTD.shape[-1])
        own_BHQT = q_BHQD @ keys_BHTD.transpose(-1, -2)
        own_BHQT[..., self.own.length + 1 :] = -torch.inf
        prompt_BHQT = self._prompts.scores(layer, q_BHQD)
        scores_BHQT = torch.cat([prompt_BHQT, own_BHQT], dim=-1)
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
    """Several memories behind one forward call, their rows one after another."""

    def __init__(self, memories: Sequence[AttentionMemory], rows: Sequence[int]) -> None:
        self._memories, self._rows = memories, list(rows)

    def attend(self, layer: int, q_BHTD: Tensor, k_BHTD: Tensor, v_BHTD: Tensor) -> Tensor:
        """Each memory attends for its own rows."""
        parts = zip(
            self._memories,
            torch.split(q_BHTD, self._rows),
            torch.split(k_BHTD, self._rows),
            torch.split(v_BHTD, self._rows),
            strict=True,
        )
        return torch.cat([memory.attend(layer, q, k, v) for memory, q, k, v in parts])
