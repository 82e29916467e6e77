"""How much memory Python will take for a file, counted before anything of it is held.

A packed file can be a thousandth of its content: a Parquet file of 1.5 kB can name one text of two
megabytes in three thousand rows, and 175 kB of an archive unpack to sixty million empty lists. The
content is therefore gone through once, in small portions that are dropped again, and a file whose
content is out of all proportion to its size is refused before its rows are made.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

from sage_cli.errors import DataError

if TYPE_CHECKING:
    import pyarrow as pa

ALWAYS_HELD, RATIO = 2**29, 200
"""The bound: 512 MiB, or 200 times the size of the file if that is more."""
BATCH_ROWS = 1024
"""Rows of Parquet that are decoded at once."""
_CHUNK = 2**20
_MOST_PER_BYTE = 50
"""Python's bytes for a byte of JSON, at most: `[],` costs 64 for a list and 36 for its place."""
_FOUR_BYTES = tuple(bytes([first]) for first in range(0xF0, 0xF5))
"""The first bytes of UTF-8's letters beyond the first 65,536, such as emoji."""
_CONTAINER = re.compile(rb"[\[{,:]\s*(?=[\[{])")
"""Where a list or an object begins inside another; braces of formulas follow other letters."""
_CONTAINER_BYTES, _ITEM_BYTES, _ENTRY_BYTES, _QUOTE_BYTES = 64, 36, 60, 25
"""Python's bytes for a list or an object, for a comma (a place and a number), for a colon (an entry
of a dictionary) and for a quotation mark (half the head of a text)."""
_ROW_BYTES, _VALUE_BYTES = 232, 56
"""Python's bytes for a row of Parquet and for each of its values, besides the letters of texts."""


class HeldSize:
    """The count of a file's content, which raises DataError once it passes the bound."""

    def __init__(self, path: Path) -> None:
        self._path, self._most = path, max(ALWAYS_HELD, RATIO * path.stat().st_size)
        self._held = 0

    def can_pass(self, unpacked: int) -> bool:
        """Return True if JSON of so many bytes could pass the bound, if it were made for that."""
        return unpacked * _MOST_PER_BYTE > self._most

    def add(self, size: int) -> None:
        """Count so many bytes. Raises DataError where they are too many."""
        self._held += size
        if self._held > self._most:
            raise DataError(
                f"{self._path} would take more than {self._most / 2**20:,.0f} MiB of memory, and "
                f"has {self._path.stat().st_size:,} bytes",
                "split it into several files, or write it with less compression",
            )

    def add_json(self, file: BinaryIO) -> None:
        """Count the values of a stream of JSON, or of lines of JSON, without making them."""
        while chunk := file.read(_CHUNK):
            self.add(
                len(chunk) * _letter_bytes(chunk)
                + _CONTAINER_BYTES * sum(1 for _ in _CONTAINER.finditer(chunk))
                + _ITEM_BYTES * chunk.count(b",")
                + _ENTRY_BYTES * chunk.count(b":")
                + _QUOTE_BYTES * chunk.count(b'"')
            )

    def add_parquet(self, file: Any) -> None:
        """Count the rows of an open `pyarrow.parquet.ParquetFile`, texts as often as they occur."""
        import pyarrow.parquet as pq

        metadata, schema = file.metadata, file.schema
        columns = [schema.column(number) for number in range(metadata.num_columns)]
        # what the file says of itself is looked at first: even to decode it may take too much
        chunks = list(_chunks(metadata))
        HeldSize(self._path).add(
            metadata.num_rows * _ROW_BYTES + sum(chunk.num_values for chunk in chunks) * 8
        )
        for chunk in chunks:  # which is decoded whole, and then copied
            HeldSize(self._path).add(4 * chunk.total_uncompressed_size)
        # a text that is repeated is decoded once, and its repetitions are numbers
        texts = [column.path for column in columns if column.physical_type == "BYTE_ARRAY"]
        with pq.ParquetFile(self._path, read_dictionary=texts) as numbered:
            for batch in numbered.iter_batches(batch_size=BATCH_ROWS):
                self.add(batch.num_rows * _ROW_BYTES + sum(map(_held, batch.columns)))


def _letter_bytes(chunk: bytes) -> int:
    """Return Python's bytes for the widest letter: one of four makes its whole text so wide."""
    if chunk.isascii() and b"\\u" not in chunk:
        return 1
    widest = b"\\ud" in chunk.lower() or any(first in chunk for first in _FOUR_BYTES)
    return 4 if widest else 2


def _chunks(metadata: Any) -> Iterator[Any]:
    for group in range(metadata.num_row_groups):
        for column in range(metadata.num_columns):
            yield metadata.row_group(group).column(column)


def _held(column: pa.Array) -> int:
    """Return Python's bytes for the values of a column of a batch."""
    import pyarrow as pa
    import pyarrow.compute as pc

    count, kind = len(column), column.type
    if pa.types.is_dictionary(kind):
        lengths = pc.binary_length(column.dictionary).cast(pa.int64())
        return count * _VALUE_BYTES + (pc.sum(lengths.take(column.indices)).as_py() or 0)
    if pa.types.is_struct(kind):
        return count * _ROW_BYTES + sum(map(_held, column.flatten()))
    if pa.types.is_map(kind):
        return count * _ROW_BYTES + _held(column.keys) + _held(column.items)
    if hasattr(column, "flatten"):
        return count * _VALUE_BYTES + _held(column.flatten())
    return count * _VALUE_BYTES + int(column.nbytes)
