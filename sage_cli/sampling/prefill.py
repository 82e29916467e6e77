"""The first forward pass over prompts, of which several are computed at once."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from sage_cli.sampling.attention import MemoryModel
from sage_cli.sampling.token_memory import (
    PrefillMemory,
    PromptMemory,
)

PREFILL_TOKENS = 4096
"""Tokens of prompts in a forward pass; a longer prompt is computed alone."""
TokenIds = tuple[int, ...]
_MIXED_LOGITS = 256
"""Rows times lengths in a pass over prompts of several lengths: so many logits (V,) there are."""


@dataclass(frozen=True, eq=False)
class Prompt:
    """A prompt after its prefill: its memory and the logits (V,) after its last token."""

    ids: TokenIds
    memory: PromptMemory
    logits_V: Tensor


def prefill(
    model: MemoryModel,
    needed: Collection[TokenIds],
    cached: Mapping[TokenIds, Prompt],
    mixed: bool = False,
) -> dict[TokenIds, Prompt]:
    """Return the wanted prompts by their token ids, after the prefill of those not in `cached`.

    With `mixed`, prompts of several lengths are padded to one pass.

    Raises SamplingError for a model whose attention cannot be replaced.
    """
    prompts = {ids: cached[ids] for ids in needed if ids in cached}
    # sorted by length, so that prompts of one length are neighbours and need no padding
    missing = sorted((ids for ids in needed if ids not in cached), key=len)
    for batch in _batches(missing, mixed):
        prompts |= {prompt.ids: prompt for prompt in _prefilled(model, batch)}
    return prompts


def _batches(prompts: Sequence[TokenIds], mixed: bool) -> Iterator[list[TokenIds]]:
    """Yield the prompts, which are sorted by length, in batches; of one length unless `mixed`."""
    batch: list[TokenIds] = []
    lengths: set[int] = set()
    for ids in prompts:
        rows, lengths = len(batch) + 1, lengths | {len(ids)}
        # the head computes each row's logits after each of the lengths
        unequal = len(lengths) > 1 and (not mixed or rows * len(lengths) > _MIXED_LOGITS)
        if batch and (unequal or rows * len(ids) > PREFILL_TOKENS):
            yield batch
            batch, lengths = [], {len(ids)}
        batch.append(ids)
    if batch:
        yield batch


def _prefilled(model: MemoryModel, batch: list[TokenIds]) -> Iterator[Prompt]:
    """Yield prompts, the longest last, computed in one forward pass."""
    memory, lengths = PrefillMemory(), [len(ids) for ids in batch]
    # padding on the right: positions count from 0 without a shift, and a causal mask hides what
    # follows a prompt, so that it needs no mask of its own
    padded = [(*ids, *[0] * (lengths[-1] - len(ids))) for ids in batch]
    ids_BT = torch.tensor(padded, device=model.device)
    logits_BV = model.logits(memory, ids_BT, lengths if lengths[0] < lengths[-1] else None)
    if memory.order != list(range(model.layers)):  # layers were skipped or repeated
        raise model.unfit("has layers whose attention can't be replaced")
    memories = memory.prompts(lengths)
    for ids, prompt, logits_V in zip(batch, memories, logits_BV, strict=True):
        yield Prompt(ids, prompt, logits_V)
