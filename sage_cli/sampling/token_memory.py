"""Keys and values of tokens: of a prompt once for all its rows, of completions row by row."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import pad, scaled_dot_product_attention

Indices = np.ndarray[Any, np.dtype[np.int64]]
ROWS, BLOCK = 16, 32
_SLOW_PRODUCT = 400
"""CPU matrix products of fewer multiplications use torch's unblocked kernel, which is slower."""


def ranks(groups_B: Indices, groups: int) -> tuple[Indices, int]:
    """Return each member's rank (B,) within its group, from 0, and the largest group's size.

    >>> ranks(np.array([1, 0, 1]), groups=2)
    (array([0, 0, 1]), 2)
    """
    # a stable sort puts the members of a group beside each other; the position within the group is
    # the position in the sorted order, minus where the group begins
    sizes_G = np.bincount(groups_B, minlength=groups)
    order_B = np.argsort(groups_B, kind="stable")
    ranks_B = np.empty_like(order_B)
    ranks_B[order_B] = np.arange(len(order_B)) - np.repeat(np.cumsum(sizes_G) - sizes_G, sizes_G)
    return ranks_B, int(sizes_G.max(initial=1))


@dataclass(frozen=True, eq=False)
class PromptMemory:
    """One prompt's keys and values in all layers."""

    keys_YHTD: Tensor
    values_YHTD: Tensor


class PrefillMemory:
    """Attention during the prefill of prompts, which begin in the first column.

    It records keys and values (B, H, T, D) by layer, and the `order` in which layers attend.
    """

    def __init__(self) -> None:
        self.order: list[int] = []
        self.layers: dict[int, tuple[Tensor, Tensor]] = {}

    def prompts(self, lengths: Sequence[int]) -> list[PromptMemory]:
        """Return the memory of each row's prompt, of so many tokens."""
        keys_YBHTD, values_YBHTD = map(torch.stack, zip(*self.layers.values(), strict=True))
        return [
            PromptMemory(keys_YBHTD[:, row, :, :length], values_YBHTD[:, row, :, :length])
            for row, length in enumerate(lengths)
        ]

    def attend(self, layer: int, q_BHTD: Tensor, k_BHTD: Tensor, v_BHTD: Tensor) -> Tensor:
        """Return the causal attention within each prompt."""
        self.order.append(layer)
        self.layers[layer] = k_BHTD, v_BHTD
        out_BHTD = scaled_dot_product_attention(
            q_BHTD, k_BHTD, v_BHTD, is_causal=True, scale=1.0, enable_gqa=True
        )
        return out_BHTD.transpose(1, 2)


class SharedPrompts:
    """The prompts of a cohort; all rows of a prompt attend to it in one matrix product.

    Prompts are padded on the left to one length. Rows are placed in a (prompt, rank) rectangle, so
    that the products of several prompts are one batch.
    """

    def __init__(self, prompts: Sequence[PromptMemory], groups_B: Indices) -> None:
        lengths = [prompt.keys_YHTD.shape[2] for prompt in prompts]
        self._keys_YGHTD = _stack([prompt.keys_YHTD for prompt in prompts], max(lengths))
        self._values_YGHTD = _stack([prompt.values_YHTD for prompt in prompts], max(lengths))
        self._bias_G11T = _padding_bias(lengths, self._keys_YGHTD)
        self._problems = len(prompts)
        self._place(groups_B)

    def scores(self, layer: int, q_BHQD: Tensor) -> Tensor:
        """Return the products (B, H, Q, T) of queries with their prompts' keys."""
        # all rows of a prompt in one product: its keys are read from memory once, not once for each
        # row, and reading them is what a decoding step mostly does
        scores_GHRT = self._by_problem(q_BHQD) @ self._keys_YGHTD[layer].transpose(-1, -2)
        if self._bias_G11T is not None:
            scores_GHRT = scores_GHRT + self._bias_G11T
        return self._by_row(scores_GHRT, q_BHQD.shape[2])

    def mix(self, layer: int, weights_BHQT: Tensor) -> Tensor:
        """Return the weighted sums (B, H, Q, D) of the prompts' values."""
        mixed_GHRD = self._by_problem(weights_BHQT) @ self._values_YGHTD[layer]
        return self._by_row(mixed_GHRD, weights_BHQT.shape[2])

    def take(self, sources_B: Indices) -> None:
        """Make row b a row of the prompt that row `sources_B[b]` has."""
        self._place(self._groups_B[sources_B])

    def _place(self, groups_B: Indices) -> None:
        self._groups_B = groups_B
        if self._problems == 1:
            return
        ranks_B, self._width = ranks(groups_B, self._problems)
        # the rectangle has as many columns as the largest group; empty slots are computed and
        # dropped
        slots_B = groups_B * self._width + ranks_B
        self._slots_B = torch.from_numpy(slots_B).to(self._keys_YGHTD.device)

    def _by_problem(self, x_BHQD: Tensor) -> Tensor:
        _, heads, queries, size = x_BHQD.shape
        if self._problems > 1:
            slots = x_BHQD.new_zeros((self._problems * self._width, heads, queries, size))
            x_BHQD = slots.index_copy_(0, self._slots_B, x_BHQD)
        x_GBHQD = x_BHQD.view(self._problems, -1, heads, queries, size)
        return x_GBHQD.transpose(1, 2).reshape(self._problems, heads, -1, size)

    def _by_row(self, x_GHRD: Tensor, queries: int) -> Tensor:
        _, heads, _, size = x_GHRD.shape
        x_GBHQD = x_GHRD.view(self._problems, heads, -1, queries, size).transpose(1, 2)
        x_BHQD = x_GBHQD.reshape(-1, heads, queries, size)
        return x_BHQD[self._slots_B] if self._problems > 1 else x_BHQD


def _stack(prompts: list[Tensor], length: int) -> Tensor:
    """Return the prompts, padded on the left, as (Y, G, H, T, D)."""
    padded = [pad(x_YHTD, (0, 0, length - x_YHTD.shape[2], 0)) for x_YHTD in prompts]
    return torch.stack(padded, dim=1)


def _padding_bias(lengths: list[int], like: Tensor) -> Tensor | None:
    """Return (G, 1, 1, T), minus infinity where a prompt is padded; None without padding."""
    longest = max(lengths)
    if min(lengths) == longest:
        return None
    bias_GT = like.new_zeros((len(lengths), longest))
    for row, length in enumerate(lengths):
        bias_GT[row, : longest - length] = -torch.inf
    return bias_GT[:, None, None, :]


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
        (layers, heads, _, key_size), value_size = like.keys_YHTD.shape, like.values_YHTD.shape[-1]
        shape = (layers, ROWS, heads, BLOCK)
        self._keys_YBHTD = like.keys_YHTD.new_zeros((*shape, key_size))
        self._values_YBHTD = like.values_YHTD.new_zeros((*shape, value_size))
        self._least = -(-_SLOW_PRODUCT // min(key_size, value_size))
        self.length = 0

    @property
    def capacity(self) -> int:
        """Rows that fit without growing."""
        return self._keys_YBHTD.shape[1]

    def begin(self, rows: int) -> None:
        """Remove all tokens and make room for `rows` rows."""
        self.length = 0
        self.make_room(rows, 0)

    def put(self, layer: int, k_BHD: Tensor, v_BHD: Tensor) -> tuple[Tensor, Tensor]:
        """Store one token of every row; return keys and values up to it, (B, H, T, D).

        T can exceed the number of tokens by columns of older, finite content, which the caller
        masks.
        """
        rows, now = k_BHD.shape[0], self.length
        self._keys_YBHTD[layer, :rows, :, now] = k_BHD
        self._values_YBHTD[layer, :rows, :, now] = v_BHD
        # a product of a few columns more is faster than torch's unblocked kernel for few
        seen = min(max(now + 1, self._least), self._keys_YBHTD.shape[3])
        return self._keys_YBHTD[layer, :rows, :, :seen], self._values_YBHTD[layer, :rows, :, :seen]

    def take(self, sources_B: Indices) -> None:
        """Row b becomes what row `sources_B[b]` was; a row may be taken several times."""
        self.make_room(len(sources_B), self.length)
        changed = np.flatnonzero(sources_B != np.arange(len(sources_B)))
        if not len(changed):
            return
        device = self._keys_YBHTD.device
        # the right side is gathered before the left side is written, so that rows may be exchanged
        to, origin = (torch.from_numpy(x).to(device) for x in (changed, sources_B[changed]))
        for buffer_YBHTD in (self._keys_YBHTD, self._values_YBHTD):
            buffer_YBHTD[:, to, :, : self.length] = buffer_YBHTD[:, origin, :, : self.length]

    def make_room(self, rows: int, tokens: int) -> None:
        """Make room for so many rows and tokens."""
        _, held_rows, _, held_tokens, _ = self._keys_YBHTD.shape
        # doubled in rows, whose number jumps; by half in tokens, which come one at a time
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
        # grouped-query attention: Q query heads share one head of keys, and are the queries of one
        # product
        q_BHQD = q_BHTD.reshape(rows, heads, -1, q_BHTD.shape[-1])
        own_BHQT = q_BHQD @ keys_BHTD.transpose(-1, -2)
        own_BHQT[..., self.own.length + 1 :] = -torch.inf  # content of the buffer's last cohort
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
