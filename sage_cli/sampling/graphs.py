"""Decoding steps of a GPU as CUDA graphs: a step's thousands of kernels are launched by one call.

Launching a kernel takes a GPU longer than a small model's kernel runs. A graph repeats kernels at
the addresses and for the shapes of its recording, so here every row has a memory that never moves,
and the numbers of rows are rounded up to a few.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from contextlib import suppress
from typing import Any

import numpy as np
import torch
from torch import Tensor

from sage_cli.errors import is_out_of_memory
from sage_cli.sampling.attention import MemoryModel
from sage_cli.sampling.token_memory import Indices, PromptMemory

log = logging.getLogger(__name__)

_FEWER, _LEAST = 4, 16
"""Steps have `rows` rows, a quarter of them and so on, but at least 16: a graph for each."""
_PARTS = 8
"""Rows are moved in so many parts: a copy of all would be as large as the memory."""


class FixedMemory:
    """Keys and values of `rows` rows, with a column for each position of the longest text.

    A row holds its prompt's keys and values, too, which other rows of the prompt hold again. Rows
    and columns that are not in use have older content, which is finite and never read by others.
    """

    def __init__(self, model: MemoryModel, rows: int, like: PromptMemory) -> None:
        self._model, self.rows = model, rows
        (layers, heads, _, key_size), value_size = like.keys_YHTD.shape, like.values_YHTD.shape[-1]
        shape = (layers, rows, heads, model.reach)
        self._keys_YBHTD = like.keys_YHTD.new_zeros((*shape, key_size))
        self._values_YBHTD = like.values_YHTD.new_zeros((*shape, value_size))
        self._filled = 0
        # made before any recording: a graph reads these addresses for ever
        self._columns_T = torch.arange(model.reach, device=model.device)
        self._inputs_2B1 = torch.zeros((2, rows, 1), dtype=torch.int64, device=model.device)
        self._pool = torch.cuda.graph_pool_handle() if model.device.type == "cuda" else None
        self._known: set[int] = set()
        self._graphs: dict[int, tuple[torch.cuda.CUDAGraph, Tensor]] = {}

    def begin(self, prompts: Sequence[PromptMemory]) -> None:
        """Write each prompt to a row, in their order."""
        self._filled = max(prompt.keys_YHTD.shape[2] for prompt in prompts)
        for row, prompt in enumerate(prompts):
            length = prompt.keys_YHTD.shape[2]
            self._keys_YBHTD[:, row, :, :length] = prompt.keys_YHTD
            self._values_YBHTD[:, row, :, :length] = prompt.values_YHTD

    def take(self, sources_B: Indices) -> None:
        """Row b becomes what row `sources_B[b]` was; no row that changes is another's source."""
        changed = np.flatnonzero(sources_B != np.arange(len(sources_B)))
        part = -(-self.rows // _PARTS)
        for start in range(0, len(changed), part):
            to_B = changed[start : start + part]
            moves_2B = torch.from_numpy(np.stack([to_B, sources_B[to_B]]))
            to, origin = moves_2B.to(self._model.device)
            for buffer_YBHTD in (self._keys_YBHTD, self._values_YBHTD):
                filled_YBHTD = buffer_YBHTD[..., : self._filled, :]
                filled_YBHTD[:, to] = filled_YBHTD[:, origin]

    def logits(self, tokens_B: Indices, positions_B: Indices) -> Tensor:
        """Return the logits (B, V) after each row's token, which the memory stores.

        They are overwritten by the next call.
        """
        count, self._filled = len(tokens_B), int(positions_B.max()) + 1
        # one copy to the GPU for tokens and positions: each copy waits for the host
        inputs_2B1 = torch.from_numpy(np.stack([tokens_B, positions_B])).unsqueeze(-1)
        self._inputs_2B1[:, :count] = inputs_2B1.to(self._model.device)
        rows = self.rows
        # the smallest of the few sizes that has room; the rows beyond `count` compute old content,
        # which costs less than another graph
        while rows // _FEWER >= max(count, _LEAST):
            rows //= _FEWER
        if rows in self._graphs:
            graph, logits_BV = self._graphs[rows]
            graph.replay()
        else:
            if self._pool and rows in self._known:  # has loaded its kernels, and recurs
                self._record(rows, self._pool)
            # the first step of a size runs without recording: kernels are compiled and chosen at
            # their first launch, which a recording must not see
            self._known.add(rows)
            logits_BV = self._step(rows)
        return logits_BV[:count]

    def attend(self, layer: int, q_BHTD: Tensor, k_BHTD: Tensor, v_BHTD: Tensor) -> Tensor:
        """Return the attention of one new token per row to its text up to itself."""
        rows, heads, _, size = k_BHTD.shape
        keys_BHTD, values_BHTD = self._keys_YBHTD[layer, :rows], self._values_YBHTD[layer, :rows]
        column_BHT1 = self._inputs_2B1[1, :rows].view(rows, 1, 1, 1).expand(-1, heads, -1, -1)
        # by an index tensor, not by a slice: a recorded slice would write to the same column in
        # every replay
        keys_BHTD.scatter_(2, column_BHT1.expand(-1, -1, -1, size), k_BHTD)
        values_BHTD.scatter_(2, column_BHT1.expand(-1, -1, -1, v_BHTD.shape[-1]), v_BHTD)
        q_BHQD = q_BHTD.reshape(rows, heads, -1, size)
        scores_BHQT = q_BHQD @ keys_BHTD.transpose(-1, -2)
        scores_BHQT = scores_BHQT.masked_fill(self._later_B11T, -torch.inf)
        weights_BHQT = torch.softmax(scores_BHQT, dim=-1, dtype=torch.float32).to(q_BHQD.dtype)
        return (weights_BHQT @ values_BHTD).reshape(rows, 1, -1, v_BHTD.shape[-1])

    def _step(self, rows: int) -> Tensor:
        tokens_B1, positions_B1 = self._inputs_2B1[:, :rows]
        # a mask over all columns, because shapes in a graph are fixed; older content behind a row's
        # position gets weight 0
        self._later_B11T = (self._columns_T > positions_B1)[:, None, None]
        device = self._model.device.type
        enabled, dtype = torch.is_autocast_enabled(device), torch.get_autocast_dtype(device)
        # autocast's cache would give graphs tensors that are freed before they run
        with torch.autocast(device, dtype, enabled=enabled, cache_enabled=False):
            return self._model.logits(self, tokens_B1, position_ids=positions_B1)

    def _record(self, rows: int, pool: Any) -> None:
        """Record a step of so many rows, without running it, if the model's kernels allow it."""
        graph, stream = torch.cuda.CUDAGraph(), torch.cuda.current_stream()
        try:
            with torch.cuda.graph(graph, pool, capture_error_mode="thread_local"):
                logits_BV = self._step(rows)
        except RuntimeError as error:  # it waits for the GPU in between, as experts may
            # torch leaves its stream and, unless the recording could be ended, its pool in use:
            # then nothing that is freed would be given back to the GPU any more
            torch.cuda.set_stream(stream)
            with suppress(RuntimeError):
                torch._C._cuda_endAllocateToPool(stream.device_index, pool)
                torch._C._cuda_releasePool(stream.device_index, pool)
            if is_out_of_memory(error):
                raise
            log.info("decoding steps aren't recorded as CUDA graphs: %s", error)
            self._pool = None
        else:
            self._graphs[rows] = graph, logits_BV
