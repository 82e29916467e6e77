"""Columns of Arrow tables as NumPy arrays, and back.

pyarrow's own `to_numpy`, `array` and `empty_table` import pandas wherever it is installed, which
takes longer than all that a command on stored results does.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa


def as_numpy(column: pa.Array | pa.ChunkedArray) -> np.ndarray[Any, Any]:
    """A column of numbers or booleans without nulls; numbers share the column's memory."""
    array = column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column
    if array.null_count:
        raise ValueError("a column with nulls is no array of numbers")
    place, count = array.offset, len(array)
    values = array.buffers()[1] if count else b""
    if pa.types.is_boolean(array.type):
        bits = np.unpackbits(np.frombuffer(values, np.uint8), bitorder="little")
        return bits[place : place + count].astype(bool)
    numbers = np.frombuffer(values, np.dtype(str(array.type).replace("double", "float64")))
    return numbers[place : place + count]


def as_column(numbers: np.ndarray[Any, Any]) -> pa.Array:
    """Whole numbers as a column, such as the rows that `take` is to take."""
    whole = np.ascontiguousarray(numbers, dtype=np.int64)
    return pa.Array.from_buffers(pa.int64(), len(whole), [None, pa.py_buffer(whole)])


def empty_table(schema: pa.Schema) -> pa.Table:
    """A table of `schema` without rows."""
    return pa.Table.from_batches([], schema=schema)
