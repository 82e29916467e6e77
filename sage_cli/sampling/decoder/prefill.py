"""Prefill: prompts are computed once each, those of one length together."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from itertools import groupby

import torch
from torch import Tensor

from sage_cli.sampling.decoder.attention import MemoryModel
from sage_cli.sampling.decoder.prompts import PrefillMemory, PromptMemory

PREFILL_TOKENS = 4096
"""Tokens of prompts in a forward pass; a longer prompt is computed alone."""

Ids = tuple[int, ...]


@dataclass(frozen=True, eq=False)
class Prompt:
    """A prompt after its prefill: its memory and the logits (V,) after its last token."""

    ids: Ids
    memory: PromptMemory
    logits_V: Tensor


def prefill(
    model: MemoryModel, wanted: Collection[Ids], known: Mapping[Ids, Prompt]
) -> dict[Ids, Prompt]:
    """Return the wanted prompts by their token ids, after the prefill of those not in `known`.

    Raises SamplingError for a model whose attention cannot be replaced.
    """
    prompts = {ids: known[ids] for ids in wanted if ids in known}
    missing = sorted((ids for ids in wanted if ids not in known), key=len)
    for length, group in groupby(missing, key=len):
        same_length, size = list(group), max(1, PREFILL_TOKENS // length)
        for start in range(0, len(same_length), size):
            batch = _prefilled(model, same_length[start : start + size])
            prompts |= {prompt.ids: prompt for prompt in batch}
    return prompts


def _prefilled(model: MemoryModel, batch: list[Ids]) -> Iterator[Prompt]:
    """Yield prompts of one length, computed in one forward pass."""
    memory = PrefillMemory()
    logits_BV = model.logits(memory, torch.tensor(batch, device=model.device))
    if memory.order != list(range(model.layers)):  # layers were skipped or repeated
        raise model.unfit("has layers whose attention can't be replaced")
    for row, ids in enumerate(batch):
        yield Prompt(ids, memory.prompt(row), logits_BV[row])
