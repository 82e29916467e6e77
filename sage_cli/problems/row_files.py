"""Rows of JSONL, JSON, CSV and Parquet files; a broken line is named by its number."""

from __future__ import annotations

import csv
import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from decimal import Decimal
from math import isfinite
from pathlib import Path
from typing import Any, TextIO

from sage_cli.errors import DataError
from sage_cli.file_hash import read_hash
from sage_cli.json_value import json_value
from sage_cli.problems.damage import explain_damage
from sage_cli.problems.held_size import BATCH_ROWS, HeldSize

DELIMITERS = (",", ";", "\t")

Row = tuple[str, dict[str, Any]]
"""Where a row stands (`FILE, line 7`) and what it holds."""


def read_file(path: Path, inside: str | None = None) -> Iterator[Row]:
    """Yield the rows of a JSONL, JSON, CSV or Parquet file.

    JSON is an array, or an object that holds one as `inside`. Raises DataError when the file isn't
    there, is of another kind, or has a row that isn't one.
    """
    _require(path)
    if path.suffix not in _READERS:
        raise DataError(
            f"{path} is neither JSONL, JSON, CSV nor Parquet",
            f"give a file that ends in {', '.join(SUFFIXES)}",
        )
    return _json(path, inside) if path.suffix == ".json" else _READERS[path.suffix](path)


def content(path: Path) -> str:
    """Return the SHA-256 of a file's content. Raises DataError when it isn't there."""
    _require(path)
    return read_hash(path)


def _require(path: Path) -> None:
    if not path.is_file():
        raise DataError(f"there is no file {path}", "check the path")


def _jsonl(path: Path) -> Iterator[Row]:
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


def _object(row: Any, where: str) -> Row:
    if not isinstance(row, dict):
        raise DataError(
            f"{where}, is a JSON {type(row).__name__}, not an object",
            'each row must be one JSON object, for example {"question": ..., "gold": ...}',
        )
    return where, row


def _json(path: Path, inside: str | None = None) -> Iterator[Row]:
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


def _csv(path: Path) -> Iterator[Row]:
    """Rows by the columns that the first line names, every value a text."""
    with _text(path, newline="") as file:
        reader = csv.reader(file, strict=True, delimiter=_delimiter(file))
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


def _delimiter(file: TextIO) -> str:
    """Return the delimiter of the first line: spreadsheets also write ; and tabs."""
    first = file.readline()
    file.seek(0)
    return max(DELIMITERS, key=first.count)


def _named(columns: list[str], values: list[str], path: Path, number: int) -> dict[str, str]:
    if len(values) != len(columns):
        raise DataError(
            f"{path}, line {number}, has {len(values)} values, but the first line has "
            f"{len(columns)} columns",
            "fix the line: a value that contains a delimiter, quote or line break must be quoted",
        )
    return dict(zip(columns, values, strict=True))


def _parquet(path: Path) -> Iterator[Row]:
    import pyarrow.parquet as pq

    damaged = explain_damage(f"{path} isn't a Parquet file", "write the file again")
    with damaged, pq.ParquetFile(path) as file:
        HeldSize(path).add_parquet(file)
        number = 0
        for batch in file.iter_batches(BATCH_ROWS):
            for row in batch.to_pylist():
                number += 1
                yield f"{path}, row {number}", row


@contextmanager
def _text(path: Path, newline: str | None = None) -> Iterator[TextIO]:
    """A file of UTF-8 text, with or without the mark that spreadsheets put first."""
    try:
        with path.open(encoding="utf-8-sig", newline=newline) as file:
            yield file
    except UnicodeDecodeError as error:
        raise DataError(f"{path} isn't UTF-8 text: {error}", "convert the file") from error


_READERS: Mapping[str, Callable[[Path], Iterator[Row]]] = {
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
