"""A run's `ledger/`: how each prompt of each step of RL was answered."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

import pyarrow as pa

from sage_cli.store.lease import Lease
from sage_cli.store.runs.step_files import StepFiles


class PromptRow(NamedTuple):
    """The completions of a problem that one generation batch sampled.

    `n` of them were sampled; the next five count them by grade. `tokens` is the sum of their
    lengths, `right_tokens` that of the right ones. `trained`: they were in the batch that was
    trained on, and not replaced by other prompts.
    """

    problem: str
    n: int
    right: int
    wrong: int
    unparseable: int
    timeout: int
    error: int
    tokens: int
    right_tokens: int
    trained: bool


_TYPES = {"problem": pa.string(), "trained": pa.bool_()}
SCHEMA = pa.schema(
    [("step", pa.int32()), *((name, _TYPES.get(name, pa.int32())) for name in PromptRow._fields)]
)


class TrainingLedger(StepFiles):
    """Rows of a training; those since the last checkpoint are in memory."""

    def __init__(self, folder: Path, lease: Lease | None = None) -> None:
        super().__init__(folder, SCHEMA, lease)
        self._waiting: list[tuple[int, PromptRow]] = []

    def add(self, step: int, rows: Iterable[PromptRow]) -> None:
        """Keep the rows of the generation batch that `step` is the first to train on."""
        self._waiting += [(step, row) for row in rows]

    def seal(self) -> None:
        """Write what was added since the last call. Raises StoreError."""
        if self._waiting:
            listed = [(step, *row) for step, row in self._waiting]
            columns = dict(zip(SCHEMA.names, map(list, zip(*listed, strict=True)), strict=True))
            self.write(pa.table(columns, schema=SCHEMA))
            self._waiting = []
