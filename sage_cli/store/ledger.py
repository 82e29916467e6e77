"""A run's `ledger/` and `completions/`: how each prompt of each step of RL was answered."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import pyarrow as pa

from sage_cli.store.files import replacing, storing
from sage_cli.store.json_files import warn_once
from sage_cli.store.locks import Lease
from sage_cli.store.tables import empty_table

_TYPES = {"problem": pa.string(), "trained": pa.bool_()}
AT_ONCE = 64 * 2**20
"""Bytes of rows after which a file is written, before the next step's."""
WAITING = 2
"""Generation batches that may wait for the thread."""
COMPLETIONS_SCHEMA = pa.schema(
    [
        ("step", pa.int32()),
        ("problem", pa.string()),
        ("prompt", pa.string()),
        ("gold", pa.string()),
        ("text", pa.string()),
        ("grade", pa.string()),
        ("rewards", pa.list_(pa.float32())),
        ("trained", pa.bool_()),
        ("ids", pa.list_(pa.int32())),
    ]
)
"""`rewards` are the weighted parts of the sum that is maximised: `rl.rewards` in their order, the
grade if it isn't one of them, a punishment; null where dynamic sampling replaced the group."""


class StepFiles:
    """The files of one schema in `folder`, whose rows have a `step`, by which they are sorted.

    Every new file requires `lease`, that of the run. Processes that train together write files of
    their own.
    """

    def __init__(
        self, folder: Path, schema: pa.Schema, lease: Lease | None = None, process: int = 0
    ) -> None:
        self.folder, self.schema = folder, schema
        self._lease, self._process = lease, process

    def write(self, table: pa.Table) -> None:
        """Write rows that come after all others. Raises StoreError."""
        import pyarrow.parquet as pq

        first, last = table["step"][0].as_py(), table["step"][-1].as_py()
        file = self.folder / f"steps-{first:08d}-{last:08d}-{self._process}.parquet"
        if self._lease is not None:
            self._lease.require()
        with storing(self.folder), replacing(file) as temporary:
            pq.write_table(table, temporary, compression="zstd", write_page_checksum=True)

    def rewind(self, step: int) -> None:
        """Remove the rows of all processes after `step` (0 removes all)."""
        for file in self._files():
            table = self._read(file)
            steps = [] if table is None else table["step"].to_pylist()
            kept = sum(row_step <= step for row_step in steps)
            if table is None or kept < len(table):
                if table is not None and kept:
                    process = int(file.stem.rpartition("-")[2])
                    StepFiles(self.folder, self.schema, self._lease, process).write(
                        table.slice(0, kept)
                    )
                file.unlink(missing_ok=True)

    def read(self) -> pa.Table:
        """Return all rows, file by file; a corrupt file is left out with one warning."""
        tables = [table for file in self._files() if (table := self._read(file)) is not None]
        return pa.concat_tables([empty_table(self.schema), *tables])

    def _files(self) -> list[Path]:
        return sorted(self.folder.glob("steps-*.parquet"))

    def _read(self, file: Path) -> pa.Table | None:
        """Return a file's rows; None if it is corrupt, was altered, or is of another layout."""
        import pyarrow.parquet as pq

        try:
            table = pq.ParquetFile(file, page_checksum_verification=True).read()
        except (OSError, pa.ArrowException):
            table = None
        if table is None or not table.schema.equals(self.schema):
            warn_once(
                f"{file} is corrupt, was edited or is another version's: its steps are left out"
            )
            return None
        return table


class PromptRow(NamedTuple):
    """The completions of a problem that one generation batch sampled.

    `n` of them were sampled; the next five count them by grade. `tokens` is the sum of their
    lengths, `right_tokens` that of the correct ones. `trained`: they were in the batch that was
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


_COUNTED = PromptRow._fields
"""The columns besides the step."""
LEDGER_SCHEMA = pa.schema(
    [("step", pa.int32()), *((name, _TYPES.get(name, pa.int32())) for name in _COUNTED)]
)


class TrainingLedger(StepFiles):
    """Rows of a training; those since the last checkpoint are in memory."""

    def __init__(self, folder: Path, lease: Lease | None = None) -> None:
        super().__init__(folder, LEDGER_SCHEMA, lease)
        self._waiting: list[tuple[int, PromptRow]] = []

    def add(self, step: int, rows: Iterable[PromptRow]) -> None:
        """Keep the rows of the generation batch that `step` is the first to train on."""
        self._waiting += [(step, row) for row in rows]

    def seal(self) -> None:
        """Write what was added since the last call. Raises StoreError."""
        if self._waiting:
            rows = [{"step": step, **row._asdict()} for step, row in self._waiting]
            self.write(pa.Table.from_pylist(rows, schema=LEDGER_SCHEMA))
            self._waiting = []


@dataclass(frozen=True, eq=False)
class Sampled:
    """Completions of one generation batch, a sequence for each column of COMPLETIONS_SCHEMA."""

    step: int
    problem: Sequence[str]
    prompt: Sequence[str]
    gold: Sequence[str]
    text: Sequence[str]
    grade: Sequence[str]
    trained: bool
    ids: Sequence[Sequence[int]]
    rewards: Sequence[Sequence[float]] | None = None

    def table(self) -> pa.Table:
        """Return the rows in the form of COMPLETIONS_SCHEMA."""
        count = len(self.text)
        about = {"step": [self.step] * count, "trained": [self.trained] * count}
        rewards = [None] * count if self.rewards is None else self.rewards
        return pa.table({**vars(self), **about, "rewards": rewards}, schema=COMPLETIONS_SCHEMA)


class TrainingCompletions(StepFiles):
    """The completions of one process of a training, on their way to files."""

    def __init__(self, folder: Path, lease: Lease | None = None, process: int = 0) -> None:
        super().__init__(folder, COMPLETIONS_SCHEMA, lease, process)
        self._thread: ThreadPoolExecutor | None = None
        self._waiting: deque[Future[None]] = deque()
        self._tables: list[pa.Table] = []
        self._step = 0

    def add(self, sampled: Sampled) -> None:
        """Write a batch's completions in a thread. Raises StoreError of an earlier batch."""
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
