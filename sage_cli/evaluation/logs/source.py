"""The one place where the bytes of a log are opened, unpacked and decoded."""

from __future__ import annotations

import struct
import zipfile
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from functools import cached_property
from pathlib import Path
from typing import Any, TypeVar

from sage_cli.errors import DataError
from sage_cli.json_value import json_value
from sage_cli.problems.row_files import SUFFIXES, Row, as_text, read_file

Taken = TypeVar("Taken")

_ZSTANDARD = 93
"""The method of compression in a zip archive, which Python reads from 3.14 on."""
_MOST_BYTES, _FLOOR_BYTES, _RATIO = 2**30, 2**28, 200
"""Bounds on one unpacked file, and on all of them: 256 MiB, or 200 times the size of the log."""
_HEADER = struct.Struct("<26xHH")


class Source:
    """A file that another program wrote: its rows, its JSON value, or its archive's files.

    Whatever is read twice, once to recognise the program and once for its samples, is decoded once.
    """

    def __init__(self, path: Path) -> None:
        self.path = path

    def __str__(self) -> str:
        return str(self.path)

    @cached_property
    def is_archive(self) -> bool:
        """Return True for a zip archive."""
        return zipfile.is_zipfile(self.path)

    @cached_property
    def first(self) -> Mapping[str, Any]:
        """The first row of a file, or the whole of a JSON object; empty for an archive."""
        if self.is_archive:
            return {}
        if self.path.suffix == ".json":
            return self.value if isinstance(self.value, dict) else {}
        if self.path.suffix not in SUFFIXES:
            raise DataError(
                f"{self.path} is neither JSONL, CSV, Parquet, JSON nor a log of Inspect",
                "give the file that contains the samples",
            )
        return next((values for _, values in self.rows()), {})

    @cached_property
    def value(self) -> Any:
        """The value of a JSON file. Raises DataError."""
        try:
            return json_value(self.path.read_bytes())
        except ValueError as error:
            raise DataError(f"{self.path} isn't JSON: {error}") from None

    def rows(self) -> Iterator[Row]:
        """Yield the rows of a JSONL, JSON, CSV or Parquet file."""
        return read_file(self.path)

    def each(self, take: Callable[[Row], Iterable[Taken]], expected: str) -> list[Taken]:
        """Return all that `take` gives of the rows. Raises DataError that names a damaged row."""
        return take_each(self.rows(), take, expected)

    @cached_property
    def members(self) -> Mapping[str, zipfile.ZipInfo]:
        """The archive's files by name. Raises DataError for one that is damaged or too large."""
        try:
            archive = zipfile.ZipFile(self.path)
        except zipfile.BadZipFile as error:
            raise DataError(f"{self.path} is damaged: {error}") from None
        with archive:
            members = {info.filename: info for info in archive.infolist()}
        size = sum(info.file_size for info in members.values())
        if size > max(_FLOOR_BYTES, _RATIO * self.path.stat().st_size):
            raise DataError(f"{self.path} would unpack to {size:,} bytes", "import a smaller log")
        return members

    def member(self, name: str) -> Any:
        """Return the JSON value of a packed file."""
        info = self.members[name]
        if info.file_size > _MOST_BYTES:
            raise DataError(f"{info.filename} of {self.path} would have {info.file_size:,} bytes")
        if info.compress_type != _ZSTANDARD:
            with zipfile.ZipFile(self.path) as archive:
                return json_value(archive.read(info))
        with self.path.open("rb") as file:
            file.seek(info.header_offset)
            name_size, extra = _HEADER.unpack(file.read(_HEADER.size))
            file.seek(name_size + extra, 1)
            packed = file.read(info.compress_size)
        import pyarrow as pa

        try:
            unpacked = pa.Codec("zstd").decompress(packed, info.file_size, asbytes=True)
        except (pa.ArrowException, OSError) as error:
            raise DataError(f"{info.filename} of {self.path} is damaged: {error}") from None
        return json_value(unpacked)


@contextmanager
def expecting(location: object, expected: str) -> Iterator[None]:
    """Raise DataError where the block finds other values at `location` than a program writes."""
    try:
        yield
    except DataError:
        raise
    except (KeyError, TypeError, AttributeError, IndexError, ValueError) as error:
        kind = "" if isinstance(error, ValueError) else f"{type(error).__name__} "
        raise DataError(f"{location} can't be read: {kind}{error}", expected) from error


def take_each(
    rows: Iterable[Row], take: Callable[[Row], Iterable[Taken]], expected: str
) -> list[Taken]:
    """Return all that `take` gives of the rows. Raises DataError that names a damaged row."""
    taken: list[Taken] = []
    for row in rows:
        with expecting(row[0], expected):
            taken += take(row)
    return taken


def single_text(value: object, location: str, name: str) -> str:
    """Return a text, or the one text in a list. Raises DataError for anything else."""
    if isinstance(value, list | tuple) and len(value) == 1:
        value = value[0]
    if isinstance(value, list | tuple | dict):
        raise DataError(
            f"{location}: {name} holds {len(value)} values, not one",
            "write rows as {question, gold, completion, correct}, with one gold a problem",
        )
    return as_text(value)


def results_beside(file: Path, take: Callable[[Any], dict[str, Any]]) -> dict[str, Any]:
    """Return what `take` gives of a file of results; nothing of one that isn't there or is torn."""
    try:
        return take(json_value(file.read_bytes()))
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return {}
