"""Stored completions: Parquet parts named by their checksum."""

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

# what samplers of other packages import from here
from sage_cli.store.completion import Completion as Completion
from sage_cli.store.files import replacing, storing
from sage_cli.store.tables import as_numpy

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
_NAME = re.compile(
    r"part-(?P<writer>[0-9a-f]{8})-(?P<number>\d{6,})-(?P<checksum>[0-9a-f]{16})\.parquet"
)
log = logging.getLogger(__name__)


class DamagedPartError(StoreError):
    """A part whose content does not match the checksum in its name."""


class PartFile(NamedTuple):
    """A part as its folder lists it; another size or time (ns) means another content."""

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

    `writer` is a token of eight hexadecimal digits, unique to the writer; `provenance` (engine and
    versions) goes into the file's schema metadata. Raises StoreError if there is no space.
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
    """Return a part's table, or some of its columns.

    Raises DamagedPartError for a corrupt or altered file, StoreError for one that cannot be read.
    """
    import pyarrow.parquet as pq

    try:
        content = path.read_bytes()
    except OSError as error:
        raise StoreError(
            f"{path} can't be read: {error.strerror or error}", "run the same command again"
        ) from error
    name = _NAME.fullmatch(path.name)
    # the checksum is in the name, so that no other file has to be written with the part, and equal
    # parts of two writers have equal names
    if name is None or _checksum(content) != name["checksum"]:
        raise DamagedPartError(
            f"{path} is corrupt or was edited: its content does not match the checksum in its name",
            "run the same command again: the part is set aside and its samples are sampled again",
        )
    # `read_table` would import pandas (see above)
    return pq.ParquetFile(pa.BufferReader(content)).read(columns=columns)


def completions_of(table: pa.Table, part: str) -> Iterator[Completion]:
    """Yield the rows of the table of `part`."""
    columns = [table[name].to_pylist() for name in SCHEMA.names[:-1]]
    token_ids = _tuples(table["token_ids"].combine_chunks())
    yield from map(Completion, *columns, token_ids, [part] * len(table))


def list_parts(folder: Path) -> list[PartFile]:
    """Return the parts in the order of writing, each content once; other files are ignored."""
    parts: dict[str, tuple[int, PartFile]] = {}
    for entry in sorted(_entries(folder), key=lambda entry: entry.name):
        name = _NAME.fullmatch(entry.name)
        # a copy of a part under another number is the same part: rsync of two folders may leave
        # both
        if name is not None and name["checksum"] not in parts:
            with suppress(FileNotFoundError):  # set aside meanwhile
                status = entry.stat()
                part = PartFile(entry.name, status.st_size, status.st_mtime_ns)
                parts[name["checksum"]] = (int(name["number"]), part)
    return [part for _, part in sorted(parts.values())]


@cache
def name_strangers(folder: Path, own_names: frozenset[str]) -> None:
    """Warn, once, about files that are neither parts nor one of the set's `own_names`."""
    for name in sorted(entry.name for entry in _entries(folder)):
        expected = name in own_names or name.startswith(".") or name.endswith(".damaged")
        if not expected and _NAME.fullmatch(name) is None:
            log.warning("%s is not a part of the sample set and is ignored", folder / name)


def part_number(name: str) -> int:
    """Return the number in a part's name. Raises ValueError for another name."""
    match = _NAME.fullmatch(name)
    if match is None:
        raise ValueError(f"{name} is not the name of a part")
    return int(match["number"])


def set_aside(path: Path) -> None:
    """Rename a damaged part, so that its samples are sampled again."""
    with storing(path.parent), suppress(FileNotFoundError):  # renamed by another process
        path.rename(path.with_name(f"{path.name}.damaged"))


def _entries(folder: Path) -> list[os.DirEntry[str]]:
    try:
        with os.scandir(folder) as entries:
            return list(entries)
    except FileNotFoundError:
        return []


def _tuples(column: Any) -> list[tuple[int, ...] | None]:
    """Return lists of int32 as tuples; pyarrow's own conversion takes twenty times as long."""
    offsets, values, valid = map(as_numpy, (column.offsets, column.values, column.is_valid()))
    return [
        tuple(values[start:stop].tolist()) if present else None
        for start, stop, present in zip(offsets[:-1], offsets[1:], valid, strict=True)
    ]


def _checksum(content: bytes | pa.Buffer) -> str:
    return hashlib.sha256(content).hexdigest()[:16]
