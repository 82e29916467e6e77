"""Annotations of stored samples: grades, scores, tokens, stored so as not to repeat work.

They are a cache: what is corrupt or lost is computed again. An annotation belongs to a sample in
one part, so a sample that was sampled again has none.
"""

from __future__ import annotations

import logging
import secrets
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from sage_cli.errors import SurroundingsError
from sage_cli.store.completion import Completion
from sage_cli.store.inventory import Integers, Inventory, Mask, Tally, tally_of
from sage_cli.store.json_files import write_json
from sage_cli.store.result_hash import key_of
from sage_cli.store.sample_set import SampleSet
from sage_cli.store.tables import (
    as_column,
    as_numpy,
    empty_table,
    joined,
    read_sealed,
    write_sealed,
)

_NAME = pa.dictionary(pa.int32(), pa.string())
_SAMPLE = (("part", _NAME), ("problem_id", _NAME), ("index", pa.int32()))
"""The columns that name a row's sample."""
SCHEMAS = {
    "grades": pa.schema([*_SAMPLE, ("status", _NAME), ("extracted", pa.large_string())]),
    "scores": pa.schema(
        [*_SAMPLE, ("surprisal", pa.float64()), ("entropy", pa.float64()), ("length", pa.int32())]
    ),
    "tokens": pa.schema(
        [
            *_SAMPLE,
            ("texts", pa.list_(pa.string())),
            *(
                (name, pa.list_(pa.float32()))
                for name in ("surprisal", "entropy", "q", "reference")
            ),
        ]
    ),
}
"""The columns of a kind of annotation: the sample's, then the values, in nats.

`scores` are the means of surprisal -log pi and entropy over a completion's tokens, NaN without
any, and their number; `tokens` each token's text, the policy's surprisal and entropy, q of the
guide and the initial policy's surprisal, the last two null where there is none."""
_ROLES = {"grades": "grader", "scores": "scorer", "tokens": "reader"}
"""What the author of a kind of annotation is called, in the file that records it."""
_FLUSH_ROWS = 8192
READ_AT_ONCE = 2048
FILES_AT_MOST = 32
"""More files than these are merged into one when they are read."""

log = logging.getLogger(__name__)


class Annotations:
    """The folder `<set>/<kind>/<key>/`, a row of `SCHEMAS[kind]` for each annotated sample.

    `author` is everything that decides the values; its hash is the key, and a file records it.
    Values that nothing can compute again are not `computable`.
    """

    def __init__(
        self, samples: SampleSet, author: Mapping[str, Any], kind: str, *, computable: bool = True
    ) -> None:
        self._computable = computable
        self.key = key_of(author)
        self.folder = samples.folder / kind / self.key
        self._samples, self._kind, self._author = samples, kind, author
        self._rows: list[tuple[Any, ...]] = []
        self._tables = [self._stored()]

    def add(self, rows: Sequence[tuple[Any, ...]]) -> None:
        """Add rows of a stored completion and its values."""
        for completion, *values in rows:
            if completion.part is None:
                raise ValueError(f"{self._kind} need a stored completion")
            self._rows.append((completion.part, completion.problem_id, completion.index, *values))
        if len(self._rows) >= _FLUSH_ROWS:
            self.flush()

    def flush(self) -> None:
        """Write the added rows to disk; if that fails, only this process has them.

        Raises StoreError in that case for values that are not computable.
        """
        rows, self._rows = self._rows, []
        if not rows:
            return
        schema = SCHEMAS[self._kind]
        columns = dict(zip(schema.names, map(list, zip(*rows, strict=True)), strict=True))
        table = pa.table(columns, schema=schema)
        self._tables.append(table)
        try:
            self._write(table)
        except OSError as error:
            if not self._computable:
                raise SurroundingsError(error, self.folder) from error
            why = error.strerror or error
            log.warning("%s can't be stored in %s: %s", self._kind, self.folder, why)

    def missing(self, problem_ids: Collection[str], n: int) -> Iterator[list[Completion]]:
        """Yield the stored samples below `n` of these problems without a row, some 2,048 at a time.

        Raises StoreError for a damaged part.
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
        """Return how many samples below `n` of these problems have a row; no text is read."""
        inventory = self._samples.whole_inventory()
        known_S = inventory.select(problem_ids, n) & (self._rows_of(inventory) >= 0)
        return int(known_S.sum())

    def stream(self, problem_ids: Collection[str], n: int) -> Iterator[tuple[Any, ...]]:
        """Yield the annotated samples below `n` of these problems with their values, by parts."""
        inventory = self._samples.whole_inventory()
        row_S = self._rows_of(inventory)
        known_S = inventory.select(problem_ids, n) & (row_S >= 0)
        columns = [self._column(name) for name in SCHEMAS[self._kind].names[len(_SAMPLE) :]]
        for numbers, rows in self._samples.read(inventory, known_S):
            annotated = as_column(row_S[numbers])
            values = (column.take(annotated).to_pylist() for column in columns)
            yield from zip(rows, *values, strict=True)

    def _write(self, table: pa.Table) -> None:
        """Write a table to a file of its own. Raises OSError."""
        description = self.folder / f"{_ROLES[self._kind]}.json"
        if not description.is_file():
            write_json(description, self._author)
        # A name of its own instead of an appended file: several processes annotate one set at a
        # time and need no lock.
        write_sealed(self.folder / f"{secrets.token_hex(8)}.{self._kind}", table)

    def _stored(self) -> pa.Table:
        """Return all stored rows; many files are merged into one, corrupt ones removed.

        All files of a set that is only read stay as they are.
        """
        schema = SCHEMAS[self._kind]
        files = sorted(self.folder.glob(f"*.{self._kind}"))
        tables = {file: read_sealed(file, schema) for file in files}
        readable = [table for table in tables.values() if table is not None]
        merged = joined([empty_table(schema), *readable])
        if self._samples.read_only:
            return merged
        with suppress(OSError):
            # The merged file is written first. A kill in between leaves the rows twice, which
            # counts once; the other order could lose them.
            old = [file for file, table in tables.items() if table is None]
            if len(readable) > FILES_AT_MOST:
                self._write(merged)
                old = files
            for file in old:
                file.unlink(missing_ok=True)
        return merged

    def _rows_of(self, inventory: Inventory) -> Integers:
        """Return each sample's row in the table (S,), -1 if it has none.

        Of several rows for a sample the last counts. A row whose part is not the sample's is about
        an earlier text of that sample, and is ignored.
        """
        self.flush()
        row_S = np.full(len(inventory.part_S), -1)
        if not any(map(len, self._tables)):
            return row_S
        part, problem = (self._column(name) for name in ("part", "problem_id"))
        numbers = {name: i for i, (name, *_) in enumerate(inventory.parts)}
        parts = np.array([numbers.get(name, -1) for name in part.dictionary.to_pylist()], dtype=int)
        index_R = as_numpy(self._column("index"))
        sample_R = inventory.locate(
            problem.dictionary.to_pylist(), as_numpy(problem.indices), index_R
        )
        part_R = parts[as_numpy(part.indices)]
        current_R = sample_R >= 0
        current_R[current_R] = inventory.part_S[sample_R[current_R]] == part_R[current_R]
        # Of repeated indices NumPy keeps the last assignment, and the tables are in the order of
        # reading: either row would do, since one author has one value for a text.
        row_S[sample_R[current_R]] = np.flatnonzero(current_R)
        return row_S

    def _column(self, name: str) -> Any:
        """Return a column of the whole table, in one chunk."""
        # Joined only when a column is asked for, so that many small additions don't copy all rows
        # each time.
        if len(self._tables) > 1:
            self._tables = [joined(self._tables)]
        return self._tables[0][name].combine_chunks()


class GradeStore(Annotations):
    """The folder `<set>/grades/<key>/` of one grader, whose every determinant `grader` names.

    A row is a status and the extracted answer.
    """

    def __init__(
        self, samples: SampleSet, grader: Mapping[str, Any], *, computable: bool = True
    ) -> None:
        super().__init__(samples, grader, "grades", computable=computable)

    @property
    def seed(self) -> int:
        """The evaluation seed of the samples."""
        return self._samples.identity.seed

    @property
    def judge(self) -> str:
        """The name of the judge."""
        return str(self._author.get("judge", "unknown"))

    def read(self) -> GradedSet:
        """Return the set's samples with their grades. Raises StoreError for a damaged part."""
        return GradedSet.from_store(self._samples, self)

    def tally(self, problem_ids: Sequence[str], n: int) -> Tally:
        """Count the grades of samples below `n` of these problems, without reading a text."""
        inventory = self._samples.whole_inventory()
        row_S = self._rows_of(inventory)
        status = self._column("status")
        # -1, for samples without a grade, indexes the last entry
        status_R = np.append(as_numpy(status.indices), -1)
        return tally_of(inventory, status_R[row_S], status.dictionary.to_pylist(), problem_ids, n)

    def columns(self, inventory: Inventory) -> tuple[Any, Any, Any]:
        """Return each sample's row (S,), -1 without a grade, and the columns of the rows.

        These are statuses (a dictionary) and extracted answers.
        """
        row_S = self._rows_of(inventory)
        return row_S, self._column("status"), self._column("extracted")


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
    def from_store(cls, samples: SampleSet, grades: GradeStore) -> GradedSet:
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
        graded = row >= 0
        texts = iter(self._extracted.take(as_column(row[graded])).to_pylist())
        return [next(texts) if has else None for has in graded.tolist()]

    def texts(self, rows: Integers) -> dict[int, str]:
        """Return the texts of samples by row; only the parts that hold them are read."""
        mask_S = np.zeros(len(self), dtype=bool)
        mask_S[rows] = True
        return {
            int(number): completion.text
            for numbers, completions in self.samples.read(self.inventory, mask_S)
            for number, completion in zip(numbers, completions, strict=True)
        }
