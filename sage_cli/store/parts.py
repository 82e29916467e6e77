"""One part of a sample set: a Parquet file (zstd) whose name carries its own checksum."""

from __future__ import annotations

import hashlib
import logging
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa

from sage_cli.errors import StoreError
from sage_cli.store.atomic import replacing, storing
from sage_cli.store.columns import as_numpy
from sage_cli.store.completion import Completion

SCHEMA = pa.schema(
    [
        ("problem_id", pa.dictionary(pa.int32(), pa.string())),
        ("index", pa.int32()),
        ("seed", pa.int64()),
        ("text", pa.string()),
        ("tokens", pa.int32()),
        ("finish_reason", pa.dictionary(pa.int32(), pa.string())),
        ("token_ids", pa.list_(pa.int32())),
    ]
)
NAME = re.compile(
    r"part-((?P<writer>[0-9a-f]{8})-)?(?P<number>\d{6,})-(?P<checksum>[0-9a-f]{16})\.parquet"
)
"""Parts that were written before a set could have several writers name none."""
log = logging.getLogger(__name__)


class DamagedPartError(StoreError):
    """A part whose content doesn't match the checksum in its name."""


class PartFile(NamedTuple):
    """A part as a folder lists it; another size or time (ns) means another content."""

    name: str
    size: int
    mtime_ns: int


def write_part(
    folder: Path,
    writer: str,
    number: int,
    rows: Sequence[Completion],
    provenance: Mapping[str, str],
) -> Path:
    """Write `rows` as `part-<writer>-<number>-<checksum>.parquet`, wholly or not at all.

    `writer` is eight hexadecimal digits that no other writer has; `provenance` (engine and
    versions) goes into the file's schema metadata. Raises StoreError where there is no space.
    """
    import pyarrow.parquet as pq

    columns = {name: [getattr(row, name) for row in rows] for name in SCHEMA.names}
    table = pa.table(columns, schema=SCHEMA.with_metadata(dict(provenance)))
    sink = pa.BufferOutputStream()
    pq.write_table(table, sink, compression="zstd")
    content = sink.getvalue()
    path = folder / f"part-{writer}-{number:06d}-{_checksum(content)}.parquet"
    with storing(folder), replacing(path) as temporary:
        temporary.write_bytes(content)
    return path


def read_part(path: Path, columns: Sequence[str] | None = None) -> pa.Table:
    """Read a part, or some of its columns.

    Raises DamagedPartError at a torn or altered file and StoreError at one that can't be read.
    """
    import pyarrow.parquet as pq

    try:
        content = path.read_bytes()
    except OSError as error:
        raise StoreError(
            f"{path} can't be read: {error.strerror or error}", "type the same command again"
        ) from error
    name = NAME.fullmatch(path.name)
    if name is None or _checksum(content) != name["checksum"]:
        raise DamagedPartError(
            f"{path} is torn or was altered: its content doesn't match the checksum in its name",
            "draw again with the same command: the part is set aside and its samples are redrawn",
        )
    # `read_table` would import pandas (see `columns.py`)
    return pq.ParquetFile(pa.BufferReader(content)).read(columns=columns)


def completions_of(table: pa.Table, part: str) -> Iterator[Completion]:
    """The rows of a part's table; a part of the former layout has no token ids."""
    columns = [table[name].to_pylist() for name in SCHEMA.names[:-1]]
    if "token_ids" in table.column_names:
        token_ids = _tuples(table["token_ids"].combine_chunks())
    else:
        token_ids = [None] * len(table)
    yield from map(Completion, *columns, token_ids, [part] * len(table))


def list_parts(folder: Path) -> list[PartFile]:
    """The parts in the order of writing, each content once; other files are passed over."""
    found: dict[str, tuple[int, PartFile]] = {}
    for entry in sorted(_entries(folder), key=lambda entry: entry.name):
        name = NAME.fullmatch(entry.name)
        if name is not None and name["checksum"] not in found:
            with suppress(FileNotFoundError):  # set aside meanwhile
                status = entry.stat()
                part = PartFile(entry.name, status.st_size, status.st_mtime_ns)
                found[name["checksum"]] = (int(name["number"]), part)
    return [part for _, part in sorted(found.values())]


@cache
def name_strangers(folder: Path, own: frozenset[str]) -> None:
    """Warn, once, of what is neither a part nor one of the set's `own` names: it counts nothing."""
    for name in sorted(entry.name for entry in _entries(folder)):
        known = name in own or name.startswith(".") or name.endswith(".damaged")
        if not known and NAME.fullmatch(name) is None:
            log.warning("%s is no part of the sample set, and is passed over", folder / name)


def part_number(name: str) -> int:
    """The number in a part's name; each writer numbers its own on from those that it found."""
    found = NAME.fullmatch(name)
    if found is None:
        raise ValueError(f"{name} is no part's name")
    return int(found["number"])


def set_aside(path: Path) -> None:
    """Rename a damaged part, so that its samples are drawn again; another process may have."""
    with storing(path.parent), suppress(FileNotFoundError):
        path.rename(path.with_name(f"{path.name}.damaged"))


def _entries(folder: Path) -> list[os.DirEntry[str]]:
    try:
        with os.scandir(folder) as entries:
            return list(entries)
    except FileNotFoundError:
        return []


def _tuples(column: Any) -> list[tuple[int, ...] | None]:
    """Lists of int32 as tuples; pyarrow's own conversion takes twenty times as long."""
    offsets, values, valid = map(as_numpy, (column.offsets, column.values, column.is_valid()))
    return [
        tuple(values[start:stop].tolist()) if there else None
        for start, stop, there in zip(offsets[:-1], offsets[1:], valid, strict=True)
    ]


def _checksum(content: bytes | pa.Buffer) -> str:
    return hashlib.sha256(content).hexdigest()[:16]
