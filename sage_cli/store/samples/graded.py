"""The stored samples of a set with their grades as columns, without their texts."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from sage_cli.store.arrow_tables import as_column, as_numpy
from sage_cli.store.samples.annotations import GradeStore
from sage_cli.store.samples.inventory import Integers, Inventory, Mask
from sage_cli.store.samples.sample_set import SampleSet


@dataclass(frozen=True, eq=False)
class GradedSet:
    """The S rows of a set's inventory, with each one's grade.

    `status_S` indexes `statuses`, -1 without a grade. `tokens_S` counts tokens, `truncated_S`
    marks samples that ended at their limit.
    """

    samples: SampleSet
    inventory: Inventory
    statuses: tuple[str, ...]
    status_S: Integers
    tokens_S: Integers
    truncated_S: Mask
    _row_S: Any
    _extracted: Any

    @classmethod
    def of(cls, samples: SampleSet, grades: GradeStore) -> GradedSet:
        """Return the set as it is now. Raises StoreError for a damaged part."""
        inventory = samples.whole_inventory()
        row_S, statuses, extracted = grades.columns(inventory)
        codes = np.append(as_numpy(statuses.indices), -1).astype(np.int32)
        return cls(
            samples,
            inventory,
            tuple(statuses.dictionary.to_pylist()),
            codes[row_S],
            as_numpy(inventory.rows["tokens"]),
            as_numpy(inventory.rows["truncated"]),
            row_S.astype(np.int32),
            extracted,
        )

    def __len__(self) -> int:
        return len(self.status_S)

    def extracted(self, rows: Integers) -> list[str | None]:
        """Return the extracted answers of samples by row; None without a grade or an answer."""
        row = self._row_S[rows]
        known = row >= 0
        texts = iter(self._extracted.take(as_column(row[known])).to_pylist())
        return [next(texts) if has else None for has in known.tolist()]

    def texts(self, rows: Integers) -> dict[int, str]:
        """Return the texts of samples by row; only the parts that hold them are read."""
        mask_S = np.zeros(len(self), dtype=bool)
        mask_S[rows] = True
        return {
            int(number): completion.text
            for numbers, completions in self.samples.read(self.inventory, mask_S)
            for number, completion in zip(numbers, completions, strict=True)
        }
