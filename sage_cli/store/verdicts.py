"""Verdicts kept beside the samples they are about, so that nothing is graded twice.

They are a cache: what is torn or lost is graded again. A verdict belongs to a sample in one part,
so that a sample that was drawn again has none.
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
from sage_cli.store.columns import as_numpy, empty_table
from sage_cli.store.completion import Completion
from sage_cli.store.inventory import Integers, Inventory
from sage_cli.store.samples import SampleSet
from sage_cli.store.sealed import read_sealed, write_sealed
from sage_cli.store.tally import Tally, tally_of

SCHEMA = pa.schema(
    [
        ("part", pa.dictionary(pa.int32(), pa.string())),
        ("problem_id", pa.dictionary(pa.int32(), pa.string())),
        ("index", pa.int32()),
        ("status", pa.dictionary(pa.int32(), pa.string())),
        ("extracted", pa.large_string()),
    ]
)
FLUSH_ROWS = 8192
GRADED_AT_ONCE = 2048
FILES_AT_MOST = 32

log = logging.getLogger(__name__)


class VerdictStore:
    """The folder `<set>/verdicts/<key>/` of one grader, whose every determinant `grader` names."""

    def __init__(self, samples: SampleSet, grader: Mapping[str, Any]) -> None:
        canonical = json.dumps(grader, sort_keys=True, separators=(",", ":"), default=str)
        self.key = hashlib.sha256(canonical.encode()).hexdigest()[:16]
        self.folder = samples.folder / "verdicts" / self.key
        self._samples, self._grader = samples, grader
        self._rows: list[tuple[Any, ...]] = []
        self._tables = [self._load()]

    def add(self, rows: Sequence[tuple[Completion, str, str | None]]) -> None:
        """Take stored completions with their status and what was extracted from them."""
        for completion, status, extracted in rows:
            if completion.part is None:
                raise ValueError("a verdict needs a completion that was stored")
            key = (completion.part, completion.problem_id, completion.index)
            self._rows.append((*key, status, extracted))
        if len(self._rows) >= FLUSH_ROWS:
            self.flush()

    def flush(self) -> None:
        """Put what was added on disk; where that can't be done it holds for this process alone."""
        rows, self._rows = self._rows, []
        if not rows:
            return
        columns = dict(zip(SCHEMA.names, map(list, zip(*rows, strict=True)), strict=True))
        table = pa.table(columns, schema=SCHEMA)
        self._tables.append(table)
        try:
            self._keep(table)
        except OSError as error:
            log.warning("verdicts can't be kept in %s: %s", self.folder, error.strerror or error)

    def missing(self, problem_ids: Collection[str], n: int) -> Iterator[list[Completion]]:
        """The stored samples below `n` of these problems without a verdict, some 2,048 at a time.

        Raises StoreError at a damaged part, as reading the set does.
        """
        inventory = self._samples.whole_inventory()
        lacks_S = self._verdicts_of(inventory) < 0
        waiting: list[Completion] = []
        for _, rows in self._samples.read(inventory, inventory.select(problem_ids, n) & lacks_S):
            waiting += rows
            if len(waiting) >= GRADED_AT_ONCE:
                yield waiting
                waiting = []
        if waiting:
            yield waiting

    def tally(self, problem_ids: Sequence[str], n: int) -> Tally:
        """Count the verdicts on samples below `n` of these problems, without reading a text."""
        inventory = self._samples.whole_inventory()
        verdict_S = self._verdicts_of(inventory)
        status = self._column("status")
        statuses = status.dictionary.to_pylist()
        status_V = np.append(as_numpy(status.indices), -1)  # what -1 stands for comes last
        status_S = status_V[verdict_S]
        return tally_of(inventory, status_S, statuses, problem_ids, n)

    def stream(
        self, problem_ids: Collection[str], n: int
    ) -> Iterator[tuple[Completion, str, str | None]]:
        """The samples below `n` of these problems that have a verdict, with it, part by part."""
        inventory = self._samples.whole_inventory()
        verdict_S = self._verdicts_of(inventory)
        judged_S = inventory.select(problem_ids, n) & (verdict_S >= 0)
        columns = [self._column(name) for name in ("status", "extracted")]
        for numbers, rows in self._samples.read(inventory, judged_S):
            found = (column.take(verdict_S[numbers]).to_pylist() for column in columns)
            yield from zip(rows, *found, strict=True)

    def _verdicts_of(self, inventory: Inventory) -> Integers:
        """Each sample's row in the table of verdicts, -1 where there is none."""
        self.flush()
        verdict_S = np.full(len(inventory.part_S), -1)
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
        verdict_S[sample_V[fits_V]] = np.flatnonzero(fits_V)
        return verdict_S

    def _column(self, name: str) -> Any:
        """A column of all verdicts, in one piece."""
        if len(self._tables) > 1:
            self._tables = [_joined(self._tables)]
        return self._tables[0][name].combine_chunks()

    def _keep(self, table: pa.Table) -> None:
        description = self.folder / "grader.json"
        if not description.is_file():
            write_json(description, self._grader)
        write_sealed(self.folder / f"{secrets.token_hex(8)}.verdicts", table)

    def _load(self) -> pa.Table:
        """All that was kept; many files become one, torn ones are removed.

        Beside samples that are only read all files stay as they are.
        """
        files = sorted(self.folder.glob("*.verdicts"))
        tables = {file: read_sealed(file, SCHEMA) for file in files}
        found = [table for table in tables.values() if table is not None]
        merged = _joined([empty_table(SCHEMA), *found])
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
