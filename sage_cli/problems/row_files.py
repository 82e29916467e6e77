"""Rows of JSONL, JSON, CSV and Parquet files; a broken line is named by its number."""

from __future__ import annotations

import csv
import gzip
import re
import zlib
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from decimal import Decimal
from functools import lru_cache
from io import BufferedReader, RawIOBase, TextIOWrapper
from itertools import chain
from math import isfinite
from pathlib import Path
from typing import Any, BinaryIO, TextIO, cast

from sage_cli.errors import DataError
from sage_cli.file_hash import read_hash
from sage_cli.json_value import json_value
from sage_cli.problems.damage import explain_damage
from sage_cli.problems.held_size import HeldSize
from sage_cli.problems.source_errors import AbsentFileError

COMPRESSED = (".gz", ".zst")
"""Endings of compressed files, which are read as they are."""
DELIMITERS = (",", ";", "\t")

FileRow = tuple[str, dict[str, Any]]
"""Where a row stands (`FILE, line 7`) and what it holds."""


def read_file(path: Path, inside: str | None = None) -> Iterator[FileRow]:
    """Yield the rows of a JSONL, JSON, CSV or Parquet file.

    JSON is an array, or an object that holds one as `inside`. Raises DataError when the file isn't
    there, is of another kind, or has a row that isn't one.
    """
    _require(path)
    suffix = unpacked_suffix(path)
    if suffix not in _READERS:
        raise DataError(
            f"{path} is neither JSONL, JSON, CSV nor Parquet",
            f"give a file that ends in {', '.join(SUFFIXES)}",
        )
    return _json(path, inside) if suffix == ".json" else _READERS[suffix](path)


def unpacked_suffix(path: Path) -> str:
    """Return `.jsonl` for `x.jsonl`, also where it is compressed, as in `x.jsonl.gz`."""
    if path.suffix not in COMPRESSED:
        return path.suffix
    inner = path.with_suffix("").suffix
    return path.suffix if inner == ".parquet" else inner  # which compresses its columns itself


def is_row_file(path: Path) -> bool:
    """Return True if the name is that of a file of rows, compressed or not."""
    return unpacked_suffix(path) in _READERS


def content(path: Path) -> str:
    """Return the SHA-256 of a file's content. Raises DataError when it isn't there."""
    _require(path)
    return read_hash(path)


def _require(path: Path) -> None:
    if not path.is_file():
        raise AbsentFileError(path)


def _jsonl(path: Path) -> Iterator[FileRow]:
    with _text(path) as file:
        for number, line in enumerate(file, 1):
            if line.strip():
                yield f"{path}, line {number}", _json_object(line, path, number)


def _json_object(line: str, path: Path, number: int) -> dict[str, Any]:
    try:
        row = json_value(line)
    except ValueError as error:
        reason = re.sub(r": line \d+ column (\d+).*", r" at character \1", str(error))
        raise DataError(
            f"{path}, line {number}, isn't JSON: {reason}",
            "fix or remove the line; each line must be one JSON object",
        ) from error
    return _object(row, f"{path}, line {number}")[1]


def _object(row: Any, where: str) -> FileRow:
    if not isinstance(row, dict):
        raise DataError(
            f"{where}, is a JSON {type(row).__name__}, not an object",
            'each row must be one JSON object, for example {"question": ..., "gold": ...}',
        )
    return where, row


def _json(path: Path, inside: str | None = None) -> Iterator[FileRow]:
    """Rows of a JSON array; a file that is none has an object in each line."""
    with _text(path) as file:
        text = file.read()
    try:
        rows = json_value(text)
    except ValueError as error:
        if text.lstrip().startswith("{"):
            return _jsonl(path)
        raise DataError(f"{path} isn't JSON: {error}", "write the file again") from error
    if isinstance(rows, dict) and isinstance(rows.get(inside), list):
        rows = rows[inside]
    return (
        _object(row, f"{path}, row {n}")
        for n, row in enumerate(rows if isinstance(rows, list) else [rows], 1)
    )


def _csv(path: Path) -> Iterator[FileRow]:
    """Rows by the columns that the first line names, every value a text."""
    with _text(path, newline="") as file:
        first = file.readline()  # spreadsheets also write ; and tabs
        delimiter = max(DELIMITERS, key=first.count)
        reader = csv.reader(chain([first], file), strict=True, delimiter=delimiter)
        number = 1
        try:
            columns = next(reader, [])
            if len(set(columns)) < len(columns):
                raise DataError(f"{path} names a column twice: {', '.join(columns)}", "rename one")
            number = reader.line_num + 1
            for values in reader:
                if values:
                    yield f"{path}, line {number}", _named(columns, values, path, number)
                number = reader.line_num + 1  # a quoted value may hold line breaks
        except csv.Error as error:
            raise DataError(
                f"{path}, line {number}, isn't CSV: {error}", "fix or remove the line"
            ) from error


def _named(columns: list[str], values: list[str], path: Path, number: int) -> dict[str, str]:
    if len(values) != len(columns):
        raise DataError(
            f"{path}, line {number}, has {len(values)} values, but the first line has "
            f"{len(columns)} columns",
            "fix the line: a value that contains a delimiter, quote or line break must be quoted",
        )
    return dict(zip(columns, values, strict=True))


def _parquet(path: Path) -> Iterator[FileRow]:
    import pyarrow.parquet as pq

    damaged = explain_damage(f"{path} isn't a Parquet file", "write the file again")
    with damaged, pq.ParquetFile(path) as file:
        at_once, number = HeldSize(path).add_parquet(file), 0
        for batch in file.iter_batches(at_once):
            for row in batch.to_pylist():
                number += 1
                yield f"{path}, row {number}", row


@contextmanager
def open_unpacked(path: Path) -> Iterator[BinaryIO]:
    """Open a file's bytes, decompressed if its name ends in .gz or .zst.

    Raises DataError, also where that would take too much memory.
    """
    if path.suffix in COMPRESSED:
        status = path.stat()
        _check_size(path, status.st_size, status.st_mtime_ns)
    with _decompressed(path) as file:
        yield file


@lru_cache(64)
def _check_size(path: Path, size: int, time: int) -> None:  # noqa: ARG001  of which state
    """Raise DataError where a compressed file of JSON or CSV would take too much memory."""
    with _decompressed(path) as file:
        HeldSize(path).add_json(file, by_line=unpacked_suffix(path) != ".json")


@contextmanager
def _decompressed(path: Path) -> Iterator[BinaryIO]:
    with path.open("rb") as file:
        if path.suffix == ".gz":
            with gzip.GzipFile(fileobj=file) as unpacked, _unpacking(path):
                yield cast(BinaryIO, unpacked)
        elif path.suffix == ".zst":
            import pyarrow as pa

            packed = pa.PythonFile(file, "r")
            with pa.CompressedInputStream(packed, "zstd") as stream, _unpacking(path):
                yield BufferedReader(ArrowStream(stream))
        else:
            yield file


@contextmanager
def _unpacking(path: Path) -> Iterator[None]:
    try:
        yield
    except (gzip.BadGzipFile, zlib.error, EOFError, _DamagedStreamError) as error:
        raise DataError(f"{path} can't be decompressed: {error}", "compress it again") from error


class _DamagedStreamError(OSError):
    """A compressed stream that is corrupt or none."""


class ArrowStream(RawIOBase):
    """A stream of Arrow as a raw stream of Python, whose buffers read lines."""

    def __init__(self, stream: Any) -> None:
        self._stream = stream

    def readable(self) -> bool:
        """Return True."""
        return True

    def readinto(self, buffer: Any) -> int:
        """Read into a buffer, and return the number of bytes; 0 at the end."""
        try:
            read = self._stream.read(len(buffer))
        except OSError as error:
            raise _DamagedStreamError(str(error)) from error
        buffer[: len(read)] = read
        return len(read)


@contextmanager
def _text(path: Path, newline: str | None = None) -> Iterator[TextIO]:
    """A file of UTF-8 text, with or without the mark that spreadsheets put first."""
    try:
        with open_unpacked(path) as raw, TextIOWrapper(raw, "utf-8-sig", newline=newline) as file:
            yield file
    except UnicodeDecodeError as error:
        raise DataError(f"{path} isn't UTF-8 text: {error}", "convert the file") from error


_READERS: Mapping[str, Callable[[Path], Iterator[FileRow]]] = {
    ".jsonl": _jsonl,
    ".json": _json,
    ".csv": _csv,
    ".parquet": _parquet,
}
SUFFIXES = tuple(_READERS)


def as_text(value: Any) -> str:
    """Return a text, a number or a boolean as text; AMC23 stores floats, and 27.0 reads as 27.

    Empty for what is missing, which pandas writes as NaN. Raises TypeError for anything else.
    """
    if isinstance(value, float):
        return str(int(value)) if value.is_integer() else str(value) if isfinite(value) else ""
    if not isinstance(value, str | int | Decimal | None):
        raise TypeError
    return "" if value is None else str(value).strip()
