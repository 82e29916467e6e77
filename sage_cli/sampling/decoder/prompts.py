"""Keys and values of prompts: computed once per problem, shared by all of its samples.

Shapes: layers Y, prompts G, rows B, key-value heads H, queries per key-value head Q, tokens T,
head size D, places R = rank x Q (the queries of all rows of one prompt, one after another).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import pad, scaled_dot_product_attention

Indices = np.ndarray[Any, np.dtype[np.int64]]


def ranks(groups_B: Indices, groups: int) -> tuple[Indices, int]:
    """Return each member's rank (B,) within its group, from 0, and the largest group's size.

    >>> ranks(np.array([1, 0, 1]), groups=2)
    (array([0, 0, 1]), 2)
    """
    sizes_G = np.bincount(groups_B, minlength=groups)
    order_B = np.argsort(groups_B, kind="stable")
    ranks_B = np.empty_like(order_B)
    ranks_B[order_B] = np.arange(len(order_B)) - np.repeat(np.cumsum(sizes_G) - sizes_G, sizes_G)
    return ranks_B, int(sizes_G.max(initial=1))


@dataclass(frozen=True, eq=False)
class PromptMemory:
    """One prompt's keys and values, (H, T, D) in each layer."""

    keys_Y: list[Tensor]
    values_Y: list[Tensor]


class PrefillMemory:
    """Attention during the prefill of prompts of one length.

    It records keys and values (B, H, T, D) by layer, and the `order` in which layers attend.
    """

    def __init__(self) -> None:
        self.order: list[int] = []
        self.layers: dict[int, tuple[Tensor, Tensor]] = {}

    def prompt(self, row: int) -> PromptMemory:
        """Return the memory of the prompt in `row`."""
        layers = self.layers.values()
        return PromptMemory(
            [keys[row] for keys, _ in layers], [values[row] for _, values in layers]
        )

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
        lengths = [prompt.keys_Y[0].shape[1] for prompt in prompts]
        self._keys_YGHTD = _stack([prompt.keys_Y for prompt in prompts], max(lengths))
        self._values_YGHTD = _stack([prompt.values_Y for prompt in prompts], max(lengths))
        self._bias_G11T = _padding_bias(lengths, self._keys_YGHTD)
        self._problems = len(prompts)
        self._place(groups_B)

    def scores(self, layer: int, q_BHQD: Tensor) -> Tensor:
        """Return the products (B, H, Q, T) of queries with their prompts' keys."""
        scores_GHRT = self._by_problem(q_BHQD) @ self._keys_YGHTD[layer].transpose(-1, -2)
        if self._bias_G11T is not None:
            scores_GHRT = scores_GHRT + self._bias_G11T
        return self._by_row(scores_GHRT, q_BHQD.shape[2])

    def mix(self, layer: int, weights_BHQT: Tensor) -> Tensor:
        """Return the weighted sums (B, H, Q, D) of the prompts' values."""
        mixed_GHRD = self._by_problem(weights_BHQT) @ self._values_YGHTD[layer]
        return self._by_row(mixed_GHRD, weights_BHQT.shape[2])

    def take(self, sources_B: Indices) -> None:
        """Give row b the prompt of row `sources_B[b]`."""
        self._place(self._groups_B[sources_B])

    def _place(self, groups_B: Indices) -> None:
        self._groups_B = groups_B
        if self._problems == 1:
            return
        ranks_B, self._width = ranks(groups_B, self._problems)
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


def _stack(prompts: list[list[Tensor]], length: int) -> Tensor:
    """Return the prompts, padded on the left, as (Y, G, H, T, D)."""
    padded = [[pad(x_HTD, (0, 0, length - x_HTD.shape[1], 0)) for x_HTD in p] for p in prompts]
    return torch.stack([torch.stack(layers) for layers in padded], dim=1)


def _padding_bias(lengths: list[int], like: Tensor) -> Tensor | None:
    """Return (G, 1, 1, T), minus infinity where a prompt is padded; None without padding."""
    longest = max(lengths)
    if min(lengths) == longest:
        return None
    bias_GT = like.new_zeros((len(lengths), longest))
    for row, length in enumerate(lengths):
        bias_GT[row, : longest - length] = -torch.inf
    return bias_GT[:, None, None, :]
