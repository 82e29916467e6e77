"""Arrow tables with NumPy's columns, in files with a checksum.

pyarrow's own `to_numpy`, `array` and `empty_table` import pandas if it is installed, which takes
longer than a whole command on stored results.
"""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from sage_cli.store.files import replacing

_DIGEST_BYTES = 32


def as_numpy(column: pa.Array | pa.ChunkedArray) -> np.ndarray[Any, Any]:
    """Return a column of numbers or booleans without nulls; numbers share the column's memory."""
    array = column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column
    if array.null_count:
        raise ValueError("a column with nulls is not an array of numbers")
    offset, count = array.offset, len(array)
    values = array.buffers()[1] if count else b""
    if pa.types.is_boolean(array.type):
        bits = np.unpackbits(np.frombuffer(values, np.uint8), bitorder="little")
        return bits[offset : offset + count].astype(bool)
    numbers = np.frombuffer(values, np.dtype(str(array.type).replace("double", "float64")))
    return numbers[offset : offset + count]


def as_column(numbers: np.ndarray[Any, Any]) -> pa.Array:
    """Return whole numbers as a column, such as row numbers for `take`."""
    whole = np.ascontiguousarray(numbers, dtype=np.int64)
    return pa.Array.from_buffers(pa.int64(), len(whole), [None, pa.py_buffer(whole)])


def empty_table(schema: pa.Schema) -> pa.Table:
    """Return a table of `schema` without rows."""
    return pa.Table.from_batches([], schema=schema)


def joined(tables: list[pa.Table]) -> pa.Table:
    """Return tables of one schema as one, each column in one chunk with one dictionary."""
    return pa.concat_tables(tables).unify_dictionaries().combine_chunks()


def write_sealed(path: Path, table: pa.Table) -> None:
    """Write a table in Arrow's file format behind its SHA-256. Raises OSError."""
    sink = pa.BufferOutputStream()
    options = pa.ipc.IpcWriteOptions(compression="lz4")
    with pa.ipc.new_file(sink, table.schema, options=options) as writer:
        writer.write_table(table)
    content = sink.getvalue()
    with replacing(path) as temporary, temporary.open("wb") as file:
        file.write(hashlib.sha256(content).digest())
        file.write(content)


def read_sealed(path: Path, schema: pa.Schema) -> pa.Table | None:
    """Return the table in `path`; None if the file is absent, corrupt, or of another schema.

    Such files are caches: their content is computed again.
    """
    try:
        content = path.read_bytes()
    except OSError:
        return None
    digest, rest = content[:_DIGEST_BYTES], memoryview(content)[_DIGEST_BYTES:]
    if hashlib.sha256(rest).digest() != digest:
        return None
    table = pa.ipc.open_file(pa.BufferReader(pa.py_buffer(rest))).read_all()
    return table if table.schema.equals(schema) else None
