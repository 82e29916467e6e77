"""One part of a sample set: a Parquet file (zstd) whose name carries its own checksum."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping, Sequence
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from sage_cli.errors import StoreError
from sage_cli.store.atomic import replacing
from sage_cli.store.completion import Completion

SCHEMA = pa.schema(
    [
        ("problem_id", pa.dictionary(pa.int32(), pa.string())),
        ("index", pa.int32()),
        ("seed", pa.int64()),
        ("text", pa.string()),
        ("tokens", pa.int32()),
        ("finish_reason", pa.dictionary(pa.int32(), pa.string())),
    ]
)
NAME = re.compile(r"part-(?P<number>\d{6,})-(?P<checksum>[0-9a-f]{16})\.parquet")


def write_part(
    folder: Path, number: int, rows: Sequence[Completion], provenance: Mapping[str, str]
) -> Path:
    """Write `rows` as `part-<number>-<checksum>.parquet`, wholly or not at all.

    `provenance` (engine and versions) goes into the file's schema metadata.
    """
    columns = {name: [getattr(row, name) for row in rows] for name in SCHEMA.names}
    table = pa.table(columns, schema=SCHEMA.with_metadata(dict(provenance)))
    sink = pa.BufferOutputStream()
    pq.write_table(table, sink, compression="zstd")
    content = sink.getvalue()
    path = folder / f"part-{number:06d}-{_checksum(content)}.parquet"
    with replacing(path) as temporary:
        temporary.write_bytes(content)
    return path


def read_part(path: Path, columns: Sequence[str] | None = None) -> pa.Table:
    """Read a part, or some of its columns; a torn or altered file is a StoreError naming it."""
    content = path.read_bytes()
    name = NAME.fullmatch(path.name)
    if name is None or _checksum(content) != name["checksum"]:
        raise StoreError(
            f"{path} is torn or was altered: its content doesn't match the checksum in its name",
            "draw again with the same command: the part is set aside and its samples are redrawn",
        )
    return pq.read_table(pa.BufferReader(content), columns=columns)


def part_number(path: Path) -> int:
    """The number in a part's name; parts are numbered in the order of writing."""
    return int(path.name.split("-")[1])


def _checksum(content: bytes | pa.Buffer) -> str:
    return hashlib.sha256(content).hexdigest()[:16]
