"""Rows of JSONL and Parquet files; a broken line is named by its number."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from sage_cli.errors import DataError

Row = tuple[str, dict[str, Any]]
"""Where a row stands (`FILE, line 7`) and what it holds."""
SUFFIXES = (".jsonl", ".parquet")


def read_file(path: Path) -> Iterator[Row]:
    """The rows of a JSONL or Parquet file.

    Raises DataError when the file isn't there, is of another kind, or has a row that isn't one.
    """
    if not path.is_file():
        raise DataError(f"there is no file {path}", "check the path")
    if path.suffix not in SUFFIXES:
        raise DataError(
            f"{path} is neither JSONL nor Parquet", f"name a file that ends in {SUFFIXES}"
        )
    return _parquet(path) if path.suffix == ".parquet" else _jsonl(path)


def content_hash(path: Path) -> str:
    """SHA-256 of a file, the first twelve hexadecimal digits."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()[:12]


def _jsonl(path: Path) -> Iterator[Row]:
    try:
        with path.open(encoding="utf-8") as file:
            for number, line in enumerate(file, 1):
                if line.strip():
                    yield f"{path}, line {number}", _json_object(line, path, number)
    except UnicodeDecodeError as error:
        raise DataError(f"{path} isn't UTF-8 text: {error}", "convert the file") from error


def _json_object(line: str, path: Path, number: int) -> dict[str, Any]:
    try:
        row = json.loads(line)
    except json.JSONDecodeError as error:
        raise DataError(
            f"{path}, line {number}, isn't JSON: {error.msg} at column {error.colno}",
            "mend or remove the line; each line is one JSON object",
        ) from error
    if not isinstance(row, dict):
        raise DataError(
            f"{path}, line {number}, is a JSON {type(row).__name__}, not an object",
            'each line is one JSON object, as {"question": ..., "gold": ...}',
        )
    return row


def _parquet(path: Path) -> Iterator[Row]:
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        with pq.ParquetFile(path) as file:
            number = 0
            for batch in file.iter_batches():
                for row in batch.to_pylist():
                    number += 1
                    yield f"{path}, row {number}", row
    except pa.ArrowException as error:
        raise DataError(f"{path} isn't a Parquet file: {error}", "write the file anew") from error
