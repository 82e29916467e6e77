"""Completions of a training on their way into its store, with what the losses learn of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from torch import Tensor

from sage_cli.store.runs.training_completions import Sampled, TrainingCompletions

KEPT_IDS = "kept_ids_B"
"""Where a batch carries the numbers under which its completions are kept."""


@dataclass(eq=False)
class _Waiting:
    """Completions that are kept under the numbers from `first`, until all losses have read them."""

    first: int
    sampled: Sampled
    advantage_B: np.ndarray
    policy_logps_BT: np.ndarray


class Kept:
    """Keeps this process's completions of a generation batch until the next one begins.

    Then they are handed to `store`.
    """

    def __init__(self, store: TrainingCompletions) -> None:
        self.store = store
        self._waiting: list[_Waiting] = []
        self._count = 0

    def scored(self, batch: dict[str, Any], sampled: Sampled) -> None:
        """Keep the completions of a scored batch, which gets their numbers."""
        count = len(sampled.texts)
        batch[KEPT_IDS] = torch.arange(self._count, self._count + count)
        self._waiting.append(
            _Waiting(
                self._count,
                replace(
                    sampled,
                    reference_logps_BT=_numbers(batch.get("ref_per_token_logps")),
                    engine_logps_BT=_numbers(batch.get("sampling_per_token_logps")),
                ),
                np.full(count, np.nan),
                np.full(sampled.ids_BT.shape, np.nan),
            )
        )
        self._count += count

    def replaced(self, sampled: Sampled) -> None:
        """Keep completions that no loss reads."""
        self.store.add(sampled)

    def learned(self, batch: Mapping[str, Any], logps_BT: Tensor) -> None:
        """Note a micro-batch's advantages at its first loss, and the sampling policy's logps.

        `logps_BT` are the policy's now, which sampled the batch where it carries no older ones.
        """
        if KEPT_IDS not in batch:
            return
        numbers_B = batch[KEPT_IDS].cpu().numpy()
        advantages = _numbers(batch["advantages"])
        assert advantages is not None
        if advantages.ndim == 2:
            mask_BT = batch["completion_mask"].cpu().numpy().astype(bool)
            with np.errstate(invalid="ignore"):
                advantages = (advantages * mask_BT).sum(axis=1) / mask_BT.sum(axis=1)
        logps = _numbers(batch.get("old_per_token_logps", logps_BT))
        assert logps is not None
        for one in self._waiting:
            places_B = numbers_B - one.first
            new_B = (places_B >= 0) & (places_B < len(one.advantage_B))
            new_B[new_B] = np.isnan(one.advantage_B[places_B[new_B]])
            one.advantage_B[places_B[new_B]] = advantages[new_B]
            width = min(logps.shape[1], one.policy_logps_BT.shape[1])
            one.policy_logps_BT[places_B[new_B], :width] = logps[new_B, :width]

    def pass_on(self) -> None:
        """Hand over what the last generation batch sampled: its losses are done."""
        for one in self._waiting:
            found = replace(
                one.sampled, advantage_B=one.advantage_B, policy_logps_BT=one.policy_logps_BT
            )
            self.store.add(found)
        self._waiting = []

    def seal(self) -> None:
        """Have everything on the disk. Raises StoreError."""
        self.pass_on()
        self.store.seal()


def padded(ids: Sequence[Sequence[int]]) -> np.ndarray:
    """Return token ids (B, T), padded with 0 on the right."""
    found = np.zeros((len(ids), max(map(len, ids), default=0)), dtype=np.int32)
    for row_T, one in zip(found, ids, strict=True):
        row_T[: len(one)] = one
    return found


def _numbers(values: Tensor | None) -> np.ndarray | None:
    """Return the values in single precision."""
    if values is None:
        return None
    numbers: np.ndarray = values.detach().float().cpu().numpy()
    return numbers
