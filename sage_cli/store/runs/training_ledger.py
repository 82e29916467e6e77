"""A run's `ledger/`: how each prompt of each step of RL was answered, as Parquet files.

A file holds the rows between two checkpoints and is written before the later one is sealed. So a
training that is killed and resumed has the rows of an undisturbed one.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable
from functools import cache
from pathlib import Path
from typing import NamedTuple

import pyarrow as pa

from sage_cli.store.arrow_tables import empty_table
from sage_cli.store.atomic import replacing, storing
from sage_cli.store.lease import Lease


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

log = logging.getLogger(__name__)


class TrainingLedger:
    """Rows of a training; those since the last checkpoint are in memory.

    Every file requires `lease`, that of the run.
    """

    def __init__(self, folder: Path, lease: Lease | None = None) -> None:
        self.folder, self._lease = folder, lease
        self._waiting: list[tuple[int, PromptRow]] = []

    def add(self, step: int, rows: Iterable[PromptRow]) -> None:
        """Keep the rows of the generation batch that `step` is the first to train on."""
        self._waiting += [(step, row) for row in rows]

    def seal(self) -> None:
        """Write what was added since the last call. Raises StoreError."""
        if self._waiting:
            self._write(_table(self._waiting))
            self._waiting = []

    def rewind(self, step: int) -> None:
        """Remove all rows after `step` (0 removes all)."""
        for file in self._files():
            table = _read(file)
            steps = [] if table is None else table["step"].to_pylist()
            kept = sum(one <= step for one in steps)  # rows are sorted by step
            if table is None or kept < len(table):
                if table is not None and kept:
                    self._write(table.slice(0, kept))
                file.unlink(missing_ok=True)

    def read(self) -> pa.Table:
        """Return all rows by step; a torn file is left out with one warning."""
        found = [table for file in self._files() if (table := _read(file)) is not None]
        return pa.concat_tables([empty_table(SCHEMA), *found])

    def _files(self) -> list[Path]:
        return sorted(self.folder.glob("steps-*.parquet"))

    def _path(self, table: pa.Table) -> Path:
        steps = table["step"]
        return self.folder / f"steps-{steps[0].as_py():08d}-{steps[-1].as_py():08d}.parquet"

    def _write(self, table: pa.Table) -> None:
        import pyarrow.parquet as pq

        if self._lease is not None:
            self._lease.require()
        with storing(self.folder), replacing(self._path(table)) as temporary:
            pq.write_table(table, temporary, compression="zstd", write_page_checksum=True)


def _table(rows: Iterable[tuple[int, PromptRow]]) -> pa.Table:
    """Return rows of (step, row) in the form of SCHEMA."""
    listed = [(step, *row) for step, row in rows]
    columns = dict(zip(SCHEMA.names, map(list, zip(*listed, strict=True)), strict=True))
    return pa.table(columns, schema=SCHEMA)


def _read(file: Path) -> pa.Table | None:
    """Return a file's rows; None if it is torn, was altered, or is of another layout."""
    import pyarrow.parquet as pq

    try:
        table = pq.ParquetFile(file, page_checksum_verification=True).read()
    except (OSError, pa.ArrowException):
        _name_torn(file)
        return None
    if not table.schema.equals(SCHEMA):
        _name_torn(file)
        return None
    return table


@cache
def _name_torn(file: Path) -> None:
    """Warn once about a torn file."""
    log.warning("%s is torn or was altered: its steps are left out of the ledger", file)
