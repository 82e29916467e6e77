"""How much memory Python will take for a file, counted before anything of it is held.

A packed file can be a thousandth of its content: a Parquet file of 1.5 kB can name one text of two
megabytes in three thousand rows, and 175 kB of an archive unpack to sixty million empty lists. The
content is therefore gone through once, in small portions that are dropped again, and a file whose
content is out of all proportion to its size is refused before its rows are made.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

from sage_cli.errors import DataError

if TYPE_CHECKING:
    import pyarrow as pa

ALWAYS_HELD, RATIO = 2**28, 32
"""The bound: 256 MiB, or 32 times the size of the file if that is more. With it a process that
refuses a file of up to 8 MB stays below 512 MB, libraries and a decompressed column included."""
ALWAYS_UNPACKED, UNPACKED_RATIO = 2**29, 200
"""The bound on what is unpacked and dropped again, which costs time and no memory."""
BATCH_ROWS = 1024
"""Rows of Parquet that are decoded at once, at most."""
_DECODED = 1 / 4
"""Share of the bound that one batch of Parquet may take."""
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
_DECODED_COPIES = 3
"""A value is there as it was decompressed, in its array, and as Python's text."""
_ROW_BYTES, _VALUE_BYTES = 232, 56
"""Python's bytes for a row of Parquet and for each of its values, besides the letters of texts."""


class HeldSize:
    """The count of a file's content, which raises DataError once it passes the bound."""

    def __init__(self, path: Path) -> None:
        self._path, self._size = path, path.stat().st_size
        self._most = max(ALWAYS_HELD, RATIO * self._size)
        self._held = 0

    def can_pass(self, unpacked: int) -> bool:
        """Return True if JSON of so many bytes could pass the bound, if it were made for that."""
        return unpacked * _MOST_PER_BYTE > self._most

    def check_unpacked(self, size: int) -> None:
        """Raise DataError where an archive has out of all proportion many bytes to go through."""
        most = max(ALWAYS_UNPACKED, UNPACKED_RATIO * self._size)
        if size > most:
            raise DataError(
                f"{self._path} would unpack to more than {most / 2**20:,.0f} MiB, and has "
                f"{self._size:,} bytes",
                "split it into several files, or write it with less compression",
            )

    def add(self, size: int) -> None:
        """Count so many bytes. Raises DataError where they are too many."""
        self._held += size
        self._check(self._held)

    def _check(self, held: int) -> None:
        if held > self._most:
            raise DataError(
                f"{self._path} would take more than {self._most / 2**20:,.0f} MiB of memory, and "
                f"has {self._size:,} bytes",
                "split it into several files, or write it with less compression",
            )

    def add_json(self, file: BinaryIO, *, by_line: bool = False) -> None:
        """Count the values of a stream of JSON without making them.

        What is parsed at once, the whole or a line, is there as bytes and as text besides.
        """
        parsed = longest = 0
        while chunk := file.read(_CHUNK):
            first, *more = chunk.split(b"\n") if by_line else (chunk,)
            longest = max(longest, parsed + len(first), *map(len, more))
            parsed = len(more[-1]) if more else parsed + len(first)
            letters = _letter_bytes(chunk)
            self.add(
                len(chunk) * letters
                + _CONTAINER_BYTES * sum(1 for _ in _CONTAINER.finditer(chunk))
                + _ITEM_BYTES * chunk.count(b",")
                + _ENTRY_BYTES * chunk.count(b":")
                + _QUOTE_BYTES * chunk.count(b'"')
            )
            self._check(self._held + (1 + letters) * longest)

    def add_value(self, value: Any) -> None:
        """Count a value that stays, and all that is in it, as Python holds it."""
        self.add(_size_of(value))

    def add_parquet(self, file: Any) -> int:
        """Count the rows of an open `pyarrow.parquet.ParquetFile`, texts as often as they occur.

        Returns how many rows can be decoded at once.
        """
        import pyarrow.parquet as pq

        groups = [list(_chunks(file.metadata, n)) for n in range(file.metadata.num_row_groups)]
        # what the file says of itself is looked at first: even to decode it may take too much
        values = sum(chunk.num_values for group in groups for chunk in group)
        HeldSize(self._path).add(file.metadata.num_rows * _ROW_BYTES + values * 8)
        unpacked = [[chunk.total_uncompressed_size for chunk in group] for group in groups]
        for size in (size for group in unpacked for size in group):
            self._check(_DECODED_COPIES * size)
        # a text that is stored once may stand in every row: no batch may take too much by that
        texts = max(map(sum, unpacked), default=0)
        rows = min(BATCH_ROWS, max(1, int(_DECODED * self._most) // max(1, texts)))
        with pq.ParquetFile(self._path) as counted:
            for batch in counted.iter_batches(batch_size=rows):
                self.add(batch.num_rows * _ROW_BYTES + sum(map(_held, batch.columns)))
        return rows


def _letter_bytes(chunk: bytes) -> int:
    """Return Python's bytes for the widest letter of JSON, which may be written as an escape."""
    escaped = (4 if b"\\ud" in chunk.lower() else 2) if b"\\u" in chunk else 1
    return max(escaped, _width(chunk))


def _width(text: bytes) -> int:
    """Return Python's bytes for the widest letter: one of four makes its whole text so wide."""
    if text.isascii():
        return 1
    return 4 if any(first in text for first in _FOUR_BYTES) else 2


def _chunks(metadata: Any, group: int) -> Iterator[Any]:
    for column in range(metadata.num_columns):
        yield metadata.row_group(group).column(column)


def _size_of(value: Any) -> int:
    inner: Iterable[Any] = ()
    if isinstance(value, dict):
        inner = value.values()
    elif isinstance(value, list | tuple):
        inner = value
    return sys.getsizeof(value) + sum(map(_size_of, inner))


def _held(column: pa.Array) -> int:
    """Return Python's bytes for the values of a column of a batch."""
    import pyarrow as pa
    import pyarrow.compute as pc

    count, kind = len(column), column.type
    if pa.types.is_dictionary(kind):  # as a writer of Arrow may ask for
        sizes = pc.binary_length(column.dictionary).cast(pa.int64())
        return count * _VALUE_BYTES + (pc.sum(sizes.take(column.indices)).as_py() or 0)
    if pa.types.is_struct(kind):
        return count * _ROW_BYTES + sum(map(_held, column.flatten()))
    if pa.types.is_map(kind):
        return count * _ROW_BYTES + _held(column.keys) + _held(column.items)
    if hasattr(column, "flatten"):
        return count * _VALUE_BYTES + _held(column.flatten())
    size = int(column.nbytes)
    if pa.types.is_string(kind) or pa.types.is_large_string(kind):
        letters = column.buffers()[-1]
        size *= _width(letters.to_pybytes()) if letters is not None else 1
    return count * _VALUE_BYTES + size
