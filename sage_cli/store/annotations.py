"""What is found out about stored samples, kept beside them so that it is found out once.

It is a cache: what is torn or lost is found anew. An annotation belongs to a sample in one part, so
that a sample that was drawn again has none.
"""

from __future__ import annotations

import hashlib
import json
import logging
import secrets
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Any

import numpy as np
import pyarrow as pa

from sage_cli.store.atomic import write_json
from sage_cli.store.columns import as_column, as_numpy, empty_table
from sage_cli.store.completion import Completion
from sage_cli.store.inventory import Integers, Inventory
from sage_cli.store.samples import SampleSet
from sage_cli.store.sealed import read_sealed, write_sealed

PLACE = (
    ("part", pa.dictionary(pa.int32(), pa.string())),
    ("problem_id", pa.dictionary(pa.int32(), pa.string())),
    ("index", pa.int32()),
)
"""The columns that say which sample a row is about."""
FLUSH_ROWS = 8192
READ_AT_ONCE = 2048
FILES_AT_MOST = 32

log = logging.getLogger(__name__)


class Annotations:
    """The folder `<set>/<kind>/<key>/`, with the values of `columns` for each annotated sample.

    `author` is everything that decides the values; its hash is the key, and `<role>.json` keeps it.
    """

    def __init__(
        self,
        samples: SampleSet,
        author: Mapping[str, Any],
        *,
        kind: str,
        role: str,
        columns: Sequence[tuple[str, pa.DataType]],
    ) -> None:
        canonical = json.dumps(author, sort_keys=True, separators=(",", ":"), default=str)
        self.key = hashlib.sha256(canonical.encode()).hexdigest()[:16]
        self.folder = samples.folder / kind / self.key
        self._samples, self._author, self._kind, self._role = samples, author, kind, role
        self._names = [name for name, _ in columns]
        self._schema = pa.schema([*PLACE, *columns])
        self._rows: list[tuple[Any, ...]] = []
        self._tables = [self._load()]

    def add(self, rows: Sequence[tuple[Any, ...]]) -> None:
        """Take stored completions, each followed by its values."""
        for completion, *values in rows:
            if completion.part is None:
                raise ValueError(f"{self._kind} need a completion that was stored")
            self._rows.append((completion.part, completion.problem_id, completion.index, *values))
        if len(self._rows) >= FLUSH_ROWS:
            self.flush()

    def flush(self) -> None:
        """Put what was added on disk; where that can't be done it holds for this process alone."""
        rows, self._rows = self._rows, []
        if not rows:
            return
        names = self._schema.names
        columns = dict(zip(names, map(list, zip(*rows, strict=True)), strict=True))
        table = pa.table(columns, schema=self._schema)
        self._tables.append(table)
        try:
            self._keep(table)
        except OSError as error:
            why = error.strerror or error
            log.warning("%s can't be kept in %s: %s", self._kind, self.folder, why)

    def missing(self, problem_ids: Collection[str], n: int) -> Iterator[list[Completion]]:
        """The stored samples below `n` of these problems without a row, some 2,048 at a time.

        Raises StoreError at a damaged part, as reading the set does.
        """
        inventory = self._samples.whole_inventory()
        lacks_S = self._rows_of(inventory) < 0
        waiting: list[Completion] = []
        for _, rows in self._samples.read(inventory, inventory.select(problem_ids, n) & lacks_S):
            waiting += rows
            if len(waiting) >= READ_AT_ONCE:
                yield waiting
                waiting = []
        if waiting:
            yield waiting

    def count(self, problem_ids: Collection[str], n: int) -> int:
        """How many samples below `n` of these problems have a row; no text is read."""
        inventory = self._samples.whole_inventory()
        there_S = inventory.select(problem_ids, n) & (self._rows_of(inventory) >= 0)
        return int(there_S.sum())

    def stream(self, problem_ids: Collection[str], n: int) -> Iterator[tuple[Any, ...]]:
        """The samples below `n` of these problems that have a row, with its values, by parts."""
        inventory = self._samples.whole_inventory()
        row_S = self._rows_of(inventory)
        known_S = inventory.select(problem_ids, n) & (row_S >= 0)
        columns = [self._column(name) for name in self._names]
        for numbers, rows in self._samples.read(inventory, known_S):
            rows_V = as_column(row_S[numbers])
            found = (column.take(rows_V).to_pylist() for column in columns)
            yield from zip(rows, *found, strict=True)

    def _rows_of(self, inventory: Inventory) -> Integers:
        """Each sample's row in the table, -1 where there is none."""
        self.flush()
        row_S = np.full(len(inventory.part_S), -1)
        if not any(map(len, self._tables)):
            return row_S
        part, problem = (self._column(name) for name in ("part", "problem_id"))
        numbers = {name: i for i, (name, *_) in enumerate(inventory.parts)}
        parts = np.array([numbers.get(name, -1) for name in part.dictionary.to_pylist()], dtype=int)
        index_V = as_numpy(self._column("index"))
        sample_V = inventory.locate(
            problem.dictionary.to_pylist(), as_numpy(problem.indices), index_V
        )
        part_V = parts[as_numpy(part.indices)]
        fits_V = sample_V >= 0
        fits_V[fits_V] = inventory.part_S[sample_V[fits_V]] == part_V[fits_V]
        row_S[sample_V[fits_V]] = np.flatnonzero(fits_V)
        return row_S

    def _column(self, name: str) -> Any:
        """A column of the whole table, in one piece."""
        if len(self._tables) > 1:
            self._tables = [_joined(self._tables)]
        return self._tables[0][name].combine_chunks()

    def _keep(self, table: pa.Table) -> None:
        description = self.folder / f"{self._role}.json"
        if not description.is_file():
            write_json(description, self._author)
        write_sealed(self.folder / f"{secrets.token_hex(8)}.{self._kind}", table)

    def _load(self) -> pa.Table:
        """All that was kept; many files become one, torn ones are removed.

        Beside samples that are only read all files stay as they are.
        """
        files = sorted(self.folder.glob(f"*.{self._kind}"))
        tables = {file: read_sealed(file, self._schema) for file in files}
        found = [table for table in tables.values() if table is not None]
        merged = _joined([empty_table(self._schema), *found])
        if self._samples.read_only:
            return merged
        with suppress(OSError):
            old = [file for file, table in tables.items() if table is None]
            if len(found) > FILES_AT_MOST:
                self._keep(merged)
                old = files
            for file in old:
                file.unlink(missing_ok=True)
        return merged


def _joined(tables: list[pa.Table]) -> pa.Table:
    return pa.concat_tables(tables).unify_dictionaries().combine_chunks()
