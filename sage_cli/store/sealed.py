"""Tables that can be made anew at any time: a torn or foreign file reads as none."""

from __future__ import annotations

import hashlib
from pathlib import Path

import pyarrow as pa

from sage_cli.store.atomic import replacing

_DIGEST_BYTES = 32


def write_sealed(path: Path, table: pa.Table) -> None:
    """Write a table after the SHA-256 of its Arrow form. Raises OSError as writing does."""
    sink = pa.BufferOutputStream()
    options = pa.ipc.IpcWriteOptions(compression="lz4")
    with pa.ipc.new_file(sink, table.schema, options=options) as writer:
        writer.write_table(table)
    content = sink.getvalue()
    with replacing(path) as temporary, temporary.open("wb") as file:
        file.write(hashlib.sha256(content).digest())
        file.write(content)


def read_sealed(path: Path, schema: pa.Schema) -> pa.Table | None:
    """The table that was written; None where the file is absent, torn, or of another layout."""
    try:
        content = path.read_bytes()
    except OSError:
        return None
    digest, rest = content[:_DIGEST_BYTES], memoryview(content)[_DIGEST_BYTES:]
    if hashlib.sha256(rest).digest() != digest:
        return None
    table = pa.ipc.open_file(pa.BufferReader(pa.py_buffer(rest))).read_all()
    return table if table.schema.equals(schema) else None
