"""The one place where the bytes of a log are opened, unpacked and decoded."""

from __future__ import annotations

import json
import struct
import zipfile
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from functools import cached_property
from io import BufferedReader
from pathlib import Path
from typing import Any, BinaryIO, TypeVar, cast

from sage_cli.errors import DataError
from sage_cli.json_value import json_value
from sage_cli.problems.damage import explain_damage
from sage_cli.problems.held_size import HeldSize
from sage_cli.problems.row_files import (
    SUFFIXES,
    ArrowStream,
    FileRow,
    as_text,
    open_unpacked,
    read_file,
    unpacked_suffix,
)

Taken = TypeVar("Taken")

_ZSTANDARD = 93
"""The method of compression in a zip archive, which Python reads from 3.14 on."""
_HEADER = struct.Struct("<26xHH")


class LogSource:
    """A file that another program wrote: its rows, its JSON value, or its archive's files.

    A JSON file and an archive are read once, although a program is recognised before its samples
    are read. Use it as a context manager: an archive stays open until the end of the block.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._archive: zipfile.ZipFile | None = None

    def __enter__(self) -> LogSource:
        return self

    def __exit__(self, *_: object) -> None:
        if self._archive is not None:
            self._archive.close()

    def __str__(self) -> str:
        return str(self.path)

    @cached_property
    def kept(self) -> HeldSize:
        """The count of what is kept of an archive's files, each of which is dropped when read."""
        return HeldSize(self.path)

    @cached_property
    def is_archive(self) -> bool:
        """Return True for a zip archive."""
        return zipfile.is_zipfile(self.path)

    @cached_property
    def first(self) -> Mapping[str, Any]:
        """The first row of a file, or the whole of a JSON object; empty for an archive."""
        if self.is_archive:
            return {}
        if unpacked_suffix(self.path) == ".json" and isinstance(self._json_object, dict):
            return self._json_object
        if unpacked_suffix(self.path) not in SUFFIXES:
            raise DataError(
                f"{self.path} is neither JSONL, CSV, Parquet, JSON nor a log of Inspect",
                "give the file that contains the samples",
            )
        return next((values for _, values in self.rows()), {})

    @property
    def _json_object(self) -> Any:
        """The value of a JSON file; None for lines of JSON under this name."""
        try:
            return self.value
        except DataError:
            return None

    @cached_property
    def value(self) -> Any:
        """The value of a JSON file. Raises DataError."""
        try:
            with open_unpacked(self.path) as file:
                return json_value(file.read())
        except ValueError as error:
            raise DataError(f"{self.path} isn't JSON: {error}") from None

    def rows(self) -> Iterator[FileRow]:
        """Yield the rows of a JSONL, JSON, CSV or Parquet file."""
        return read_file(self.path)

    @cached_property
    def members(self) -> Mapping[str, zipfile.ZipInfo]:
        """The archive's files by name. Raises DataError where they are too large."""
        # a name that stands there twice was written again: the last one is the program's
        members = {info.filename: info for info in self._opened.infolist()}
        HeldSize(self.path).check_unpacked(sum(info.file_size for info in members.values()))
        return members

    @property
    def _opened(self) -> zipfile.ZipFile:
        """The archive, opened once: to open it reads the list of all its files."""
        if self._archive is None:
            self._archive = zipfile.ZipFile(self.path)
        return self._archive

    def member(self, name: str) -> Any:
        """Return the JSON value of a packed file, of which there may be gigabytes.

        Each one's is made, read and dropped by itself, so each has the whole bound. Raises
        DataError for one that is damaged or would take too much memory.
        """
        info = self.members[name]
        if HeldSize(self.path).can_pass(info.file_size):
            with self._unpacked(info) as file:
                HeldSize(self.path).add_json(file)
        with self._unpacked(info) as file:
            # one byte more than the archive says: a member that is larger was altered, or is a bomb
            content = file.read(info.file_size + 1)
        if len(content) != info.file_size:
            raise DataError(f"{name} of {self.path} is damaged: it has another size than was noted")
        return json_value(content)

    @contextmanager
    def _unpacked(self, info: zipfile.ZipInfo) -> Iterator[BinaryIO]:
        """Open a packed file as a stream. Raises DataError that names it where it is damaged."""
        damaged = explain_damage(
            f"{info.filename} of {self.path} is damaged", "copy the log again, or evaluate again"
        )
        with damaged, ExitStack() as stack:
            if info.compress_type != _ZSTANDARD:
                yield cast(BinaryIO, stack.enter_context(self._opened.open(info)))
                return
            with self.path.open("rb") as file:
                # Python before 3.14 does not decompress Zstandard in archives: the packed bytes are
                # found behind the local header, whose name and extra field may differ in length
                # from the directory's
                file.seek(info.header_offset)
                name_size, extra = _HEADER.unpack(file.read(_HEADER.size))
                file.seek(name_size + extra, 1)
                packed = file.read(info.compress_size)
            import pyarrow as pa

            arrow = stack.enter_context(pa.CompressedInputStream(pa.BufferReader(packed), "zstd"))
            yield BufferedReader(ArrowStream(arrow))


@contextmanager
def expecting(location: object, expected: str) -> Iterator[None]:
    """Raise DataError where the block finds other values at `location` than a program writes."""
    with explain_damage(f"{location} can't be read", expected):
        yield


def take_each(
    rows: Iterable[FileRow], take: Callable[[FileRow], Iterable[Taken]], expected: str
) -> list[Taken]:
    """Return all that `take` gives of the rows. Raises DataError that names a damaged row."""
    taken: list[Taken] = []
    for row in rows:
        with expecting(row[0], expected):
            taken += take(row)
    return taken


def without_repeats(
    rows: Iterable[FileRow], key_of: Callable[[Mapping[str, Any]], Hashable]
) -> tuple[list[FileRow], int]:
    """Return the rows with each key once, and how many repeat another exactly.

    Raises DataError with both places where two rows of one key differ.
    """
    first: dict[Hashable, FileRow] = {}
    repeats = 0
    for row in rows:
        key = key_of(row[1])
        other = first.setdefault(key, row)
        if other is row:
            continue
        # a file that was concatenated with itself repeats rows exactly, which is harmless;
        # different content for one id is not
        if _canonical(other[1]) != _canonical(row[1]):
            raise DataError(
                f"{row[0]} and {other[0].rpartition(', ')[2]} are one sample ({key}) with "
                "different content: nothing says which of them counts",
                "remove one of them, or give each evaluation its own file",
            )
        repeats += 1
    return list(first.values()), repeats


def _canonical(values: Mapping[str, Any]) -> str:
    """Return a text that is equal for equal values, NaN included."""
    return json.dumps(values, sort_keys=True, default=str)


def single_text(value: object, location: str, name: str) -> str:
    """Return a text, or the one text in a list. Raises DataError for anything else."""
    if isinstance(value, list | tuple) and len(value) == 1:
        value = value[0]
    if isinstance(value, list | tuple | dict):
        raise DataError(
            f"{location}: {name} has {len(value)} values, not one",
            "write rows as {question, gold, completion, correct}, with one gold a problem",
        )
    return as_text(value)


def single_gold(value: object) -> str | None:
    """Return the gold; None without one, and where several answers count as correct.

    A sample with a verdict needs no gold to be compared with.
    """
    if isinstance(value, list | tuple):
        # a list of equal golds is one gold; of different ones each is correct, which a single text
        # can't say
        distinct = list(dict.fromkeys(map(str, value)))
        value = distinct[0] if len(distinct) == 1 else None
    if value is None or isinstance(value, dict):
        return None
    return as_text(value) or None


def results_beside(file: Path, take: Callable[[Any], dict[str, Any]]) -> dict[str, Any]:
    """Return what `take` gives of a file of results; nothing if it is absent or corrupt."""
    try:
        return take(json_value(file.read_bytes()))
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return {}
