"""Reading prompts: once each, those of one length together."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from itertools import groupby

import torch
from torch import Tensor

from sage_cli.sampling.attention import MemoryModel
from sage_cli.sampling.prompts import PromptMemory, PromptReading

READ_AT_ONCE = 4096
"""Tokens of prompts in a forward pass, a longer prompt alone."""

Ids = tuple[int, ...]


@dataclass(frozen=True, eq=False)
class Prompt:
    """A prompt that the model has read: its memory and the logits after it (V,)."""

    ids: Ids
    memory: PromptMemory
    logits_V: Tensor


def read_prompts(
    model: MemoryModel, wanted: Collection[Ids], known: Mapping[Ids, Prompt]
) -> dict[Ids, Prompt]:
    """The wanted prompts by their token ids; those not known are read.

    Raises SamplingError for a model whose attention can't be replaced.
    """
    prompts = {ids: known[ids] for ids in wanted if ids in known}
    unread = sorted((ids for ids in wanted if ids not in known), key=len)
    for length, several in groupby(unread, key=len):
        alike, size = list(several), max(1, READ_AT_ONCE // length)
        for start in range(0, len(alike), size):
            read = _read(model, alike[start : start + size])
            prompts |= {prompt.ids: prompt for prompt in read}
    return prompts


def _read(model: MemoryModel, together: list[Ids]) -> Iterator[Prompt]:
    """Prompts of one length, in one forward pass."""
    reading = PromptReading()
    logits_BV = model.logits(reading, torch.tensor(together, device=model.device))
    if reading.order != list(range(model.layers)):  # some run otherwise, or several times
        raise model.unfit("has layers whose attention can't be replaced")
    for row, ids in enumerate(together):
        yield Prompt(ids, reading.memory(row), logits_BV[row])
