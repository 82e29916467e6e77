"""A run's `completions/`: every completion that its training sampled (`tracking.rollouts: all`).

A thread writes them, so that the training waits for a disk only if that is slower than itself.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from sage_cli.store.lease import Lease
from sage_cli.store.runs.step_files import StepFiles

AT_ONCE = 64 * 2**20
"""Bytes of rows after which a file is written, before the next step's."""
WAITING = 2
"""Generation batches that may wait for the thread."""

_LOGPS = pa.list_(pa.float32())
SCHEMA = pa.schema(
    [
        ("step", pa.int32()),
        ("problem", pa.string()),
        ("prompt", pa.string()),
        ("gold", pa.string()),
        ("text", pa.string()),
        ("grade", pa.string()),
        ("rewards", pa.list_(pa.float32())),
        ("advantage", pa.float32()),
        ("trained", pa.bool_()),
        ("ids", pa.list_(pa.int32())),
        ("policy_logps", _LOGPS),
        ("reference_logps", _LOGPS),
        ("engine_logps", _LOGPS),
    ]
)
"""Log-probabilities are null where nothing computed them; the advantage, where no loss read it. A
per-token advantage is stored as its mean. `rewards` are the weighted parts of the sum that is
maximised: `rl.rewards` in their order, the grade if it isn't one of them, a punishment."""


@dataclass(frozen=True, eq=False)
class Sampled:
    """Completions B of one generation batch, with token arrays (B, T) padded on the right."""

    step: int
    problems: Sequence[str]
    prompts: Sequence[str]
    golds: Sequence[str]
    texts: Sequence[str]
    grades: Sequence[str]
    trained: bool
    lengths_B: np.ndarray
    ids_BT: np.ndarray
    rewards_BF: np.ndarray | None = None
    advantage_B: np.ndarray | None = None
    policy_logps_BT: np.ndarray | None = None
    reference_logps_BT: np.ndarray | None = None
    engine_logps_BT: np.ndarray | None = None

    def table(self) -> pa.Table:
        """Return the rows in the form of SCHEMA."""
        count = len(self.texts)
        rewards = [None] * count if self.rewards_BF is None else self.rewards_BF.tolist()
        columns: dict[str, Any] = {
            "step": [self.step] * count,
            "problem": list(self.problems),
            "prompt": list(self.prompts),
            "gold": list(self.golds),
            "text": list(self.texts),
            "grade": list(self.grades),
            "rewards": rewards,
            "advantage": _known(self.advantage_B, count),
            "trained": [self.trained] * count,
            "ids": self._tokens(self.ids_BT, pa.int32()),
            **{
                name: self._tokens(getattr(self, f"{name}_BT"), pa.float32())
                for name in ("policy_logps", "reference_logps", "engine_logps")
            },
        }
        return pa.table(columns, schema=SCHEMA)

    def _tokens(self, values_BT: np.ndarray | None, of: pa.DataType) -> pa.Array:
        """Return a list for each row, as long as its completion; null where it begins with NaN."""
        if values_BT is None:
            return pa.nulls(len(self.texts), pa.list_(of))
        inside_BT = np.arange(values_BT.shape[1]) < self.lengths_B[:, None]
        unknown_B = np.isnan(values_BT.astype(float)).any(axis=1, where=inside_BT)
        offsets = np.concatenate([[0], np.cumsum(self.lengths_B)]).astype(np.int32)
        flat = pa.array(values_BT[inside_BT].tolist(), of)
        mask = pa.array(unknown_B.tolist())
        return pa.ListArray.from_arrays(pa.array(offsets.tolist(), pa.int32()), flat, mask=mask)


def _known(values_B: np.ndarray | None, count: int) -> list[float | None]:
    if values_B is None:
        return [None] * count
    return [None if value != value else value for value in values_B.tolist()]


class TrainingCompletions(StepFiles):
    """The completions of one process of a training, on their way to files."""

    def __init__(self, folder: Path, lease: Lease | None = None, process: int = 0) -> None:
        super().__init__(folder, SCHEMA, lease, process)
        self._thread: ThreadPoolExecutor | None = None
        self._waiting: deque[Future[None]] = deque()
        self._tables: list[pa.Table] = []
        self._step = 0

    def add(self, sampled: Sampled) -> None:
        """Have a generation batch's completions written. Raises StoreError of an earlier one."""
        self._thread = self._thread or ThreadPoolExecutor(1)
        while len(self._waiting) >= WAITING:
            self._waiting.popleft().result()
        self._waiting.append(self._thread.submit(self._take, sampled))

    def seal(self) -> None:
        """Wait until everything is on the disk. Raises StoreError."""
        while self._waiting:
            self._waiting.popleft().result()
        self._flush()

    def _take(self, sampled: Sampled) -> None:
        """Keep rows in memory; a file is written only between steps, since these name it."""
        begins = sampled.step != self._step
        if begins and sum(table.nbytes for table in self._tables) >= AT_ONCE:
            self._flush()
        self._step = sampled.step
        self._tables.append(sampled.table())

    def _flush(self) -> None:
        tables, self._tables = self._tables, []
        if tables:
            self.write(pa.concat_tables(tables))
