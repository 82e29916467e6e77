"""Stored completions: Parquet parts named by their checksum, their inventory, and its index.

First come Arrow tables: columns as NumPy arrays and back, and files of tables with a checksum.
pyarrow's own `to_numpy`, `array` and `empty_table` import pandas if it is installed, which takes
longer than a whole command on stored results.
"""

from __future__ import annotations

import hashlib
import json
import logging
import os
import re
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from sage_cli.errors import StoreError
from sage_cli.store.files import replacing, storing

_DIGEST_BYTES = 32


def as_numpy(column: pa.Array | pa.ChunkedArray) -> np.ndarray[Any, Any]:
    """Return a column of numbers or booleans without nulls; numbers share the column's memory."""
    array = column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column
    if array.null_count:
        raise ValueError("a column with nulls is not an array of numbers")
    offset, count = array.offset, len(array)
    values = array.buffers()[1] if count else b""
    if pa.types.is_boolean(array.type):
        bits = np.unpackbits(np.frombuffer(values, np.uint8), bitorder="little")
        return bits[offset : offset + count].astype(bool)
    numbers = np.frombuffer(values, np.dtype(str(array.type).replace("double", "float64")))
    return numbers[offset : offset + count]


def as_column(numbers: np.ndarray[Any, Any]) -> pa.Array:
    """Return whole numbers as a column, such as row numbers for `take`."""
    whole = np.ascontiguousarray(numbers, dtype=np.int64)
    return pa.Array.from_buffers(pa.int64(), len(whole), [None, pa.py_buffer(whole)])


def empty_table(schema: pa.Schema) -> pa.Table:
    """Return a table of `schema` without rows."""
    return pa.Table.from_batches([], schema=schema)


def joined(tables: list[pa.Table]) -> pa.Table:
    """Return tables of one schema as one, each column in one chunk with one dictionary."""
    return pa.concat_tables(tables).unify_dictionaries().combine_chunks()


def write_sealed(path: Path, table: pa.Table) -> None:
    """Write a table in Arrow's file format behind its SHA-256. Raises OSError."""
    sink = pa.BufferOutputStream()
    options = pa.ipc.IpcWriteOptions(compression="lz4")
    with pa.ipc.new_file(sink, table.schema, options=options) as writer:
        writer.write_table(table)
    content = sink.getvalue()
    with replacing(path) as temporary, temporary.open("wb") as file:
        file.write(hashlib.sha256(content).digest())
        file.write(content)


def read_sealed(path: Path, schema: pa.Schema) -> pa.Table | None:
    """Return the table in `path`; None if the file is absent, torn, or of another schema.

    Such files are caches: their content is computed again.
    """
    try:
        content = path.read_bytes()
    except OSError:
        return None
    digest, rest = content[:_DIGEST_BYTES], memoryview(content)[_DIGEST_BYTES:]
    if hashlib.sha256(rest).digest() != digest:
        return None
    table = pa.ipc.open_file(pa.BufferReader(pa.py_buffer(rest))).read_all()
    return table if table.schema.equals(schema) else None


FINISH_REASONS = ("stop", "length")
"""How a whole sample ends. An aborted or filtered one is not stored."""


@dataclass(frozen=True, slots=True)
class Completion:
    """Sample `index` of a problem.

    `text` includes the closing answer tag where the sampler stopped on it; `tokens` counts
    generated tokens; `finish_reason` is `stop` or `length` (truncated at the limit). `token_ids`
    are the sampled ids, None if a server does not return them. `part` names the stored file, None
    before it is stored.
    """

    problem_id: str
    index: int
    seed: int
    text: str
    tokens: int
    finish_reason: str
    token_ids: tuple[int, ...] | None = None
    part: str | None = field(default=None, compare=False)


def encodable(text: str) -> str:
    """Return a text with U+FFFD for each lone surrogate, which UTF-8 cannot encode."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    return text


def token_ids(tokenizer: Any, completion: Completion, stop: str | None) -> list[int]:
    """Return the sampled tokens, or those of the text if the sampled ones were not stored.

    Tokens of a text end with the end-of-sequence token if that ended the completion.
    """
    if completion.token_ids is not None:
        return list(completion.token_ids)
    ids: list[int] = tokenizer(completion.text, add_special_tokens=False)["input_ids"]
    stopped_by_text = stop is not None and completion.text.endswith(stop)
    ended = completion.finish_reason == "stop" and not stopped_by_text
    return [*ids, tokenizer.eos_token_id] if ended else ids


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

    Raises DamagedPartError for a torn or altered file, StoreError for one that cannot be read.
    """
    import pyarrow.parquet as pq

    try:
        content = path.read_bytes()
    except OSError as error:
        raise StoreError(
            f"{path} can't be read: {error.strerror or error}", "run the same command again"
        ) from error
    name = NAME.fullmatch(path.name)
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
        name = NAME.fullmatch(entry.name)
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
        if not expected and NAME.fullmatch(name) is None:
            log.warning("%s is not a part of the sample set and is ignored", folder / name)


def part_number(name: str) -> int:
    """Return the number in a part's name. Raises ValueError for another name."""
    match = NAME.fullmatch(name)
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


Integers = np.ndarray[Any, np.dtype[np.int32]]
Mask = np.ndarray[Any, np.dtype[np.bool_]]

INVENTORY_SCHEMA = pa.schema(
    [
        ("part", pa.int32()),
        ("problem_id", pa.dictionary(pa.int32(), pa.string())),
        ("index", pa.int32()),
        ("tokens", pa.int32()),
        ("truncated", pa.bool_()),
    ]
)


class Inventory:
    """The samples of `parts`, in the parts' order; `damaged` parts count as absent.

    `rows` has S rows, one per stored sample, and the columns of INVENTORY_SCHEMA. `part_S` is each
    sample's part as an index into `parts` (ascending), `problem_S` its problem as an index into
    `problem_ids`, `index_S` its index within the problem. `repeats_S` marks rows whose sample is in
    an earlier row too.
    """

    def __init__(
        self,
        parts: tuple[PartFile, ...] = (),
        rows: pa.Table | None = None,
        damaged: tuple[str, ...] = (),
    ) -> None:
        self.parts, self.damaged = parts, damaged
        self.rows = empty_table(INVENTORY_SCHEMA) if rows is None else rows
        problems = self.rows["problem_id"].combine_chunks()
        self.problem_ids: tuple[str, ...] = tuple(problems.dictionary.to_pylist())
        self.problem_S: Integers = as_numpy(problems.indices)
        self.part_S: Integers = as_numpy(self.rows["part"])
        self.index_S: Integers = as_numpy(self.rows["index"])
        self._code_by_problem = {id_: code for code, id_ in enumerate(self.problem_ids)}
        self._starts_P, self._row_at = self._places()
        # a sample may be in two parts if two processes sampled it at once: their texts are equal,
        # as seeds decide them, and the first row counts
        first_S = self._row_at[self._starts_P[self.problem_S] + self.index_S]
        self.repeats_S: Mask = first_S != np.arange(len(first_S))

    def missing(self, problem_id: str, n: int) -> tuple[int, ...]:
        """Return the indices below `n` that the set lacks for a problem, ascending."""
        held_N = np.zeros(n, dtype=bool)
        code = self._code_by_problem.get(problem_id)
        if code is not None:
            stored = self._row_at[self._starts_P[code] : self._starts_P[code + 1]][:n] >= 0
            held_N[: len(stored)] = stored
        return tuple(np.flatnonzero(~held_N).tolist())

    def count_missing(self, problem_ids: Collection[str], n: int) -> int:
        """Return how many of the samples below `n` of these problems the set lacks."""
        return n * len(problem_ids) - int(self.select(problem_ids, n).sum())

    def select(self, problem_ids: Collection[str] | None = None, n: int | None = None) -> Mask:
        """Return the mask (S,) of samples below `n` of these problems, without repeats."""
        mask_S = ~self.repeats_S
        if problem_ids is not None:
            chosen = frozenset(problem_ids)
            wanted_P = np.array([id_ in chosen for id_ in self.problem_ids], dtype=bool)
            mask_S &= wanted_P[self.problem_S]
        if n is not None:
            mask_S &= self.index_S < n
        return mask_S

    def locate(self, problem_ids: Sequence[str], problem_R: Integers, index_R: Integers) -> Any:
        """Return the rows (R,) of samples `index_R` of problems `problem_ids[problem_R]`, or -1."""
        if not len(self._row_at) or not len(problem_R):
            return np.full(len(problem_R), -1)
        codes = np.array([self._code_by_problem.get(id_, -1) for id_ in problem_ids])
        code_R = codes[problem_R]
        place_R = self._starts_P[code_R] + index_R
        # code -1 reads the last start, which is harmless: the mask removes it
        stored_R = (code_R >= 0) & (index_R >= 0) & (place_R < self._starts_P[code_R + 1])
        return np.where(stored_R, self._row_at[np.where(stored_R, place_R, 0)], -1)

    def _places(self) -> tuple[Any, Any]:
        """Return each problem's first place (P + 1,), and each place's first row or -1.

        A problem has a place for every index up to its largest stored one.
        """
        longest_P = np.full(len(self.problem_ids), -1, dtype=np.int32)
        np.maximum.at(longest_P, self.problem_S, self.index_S)
        starts_P = np.concatenate([[0], np.cumsum(longest_P + 1, dtype=np.int64)])
        row_at = np.full(starts_P[-1], -1, dtype=np.int32)
        place_S = starts_P[self.problem_S] + self.index_S
        # numpy assigns in order, so that of several rows of one place the last assignment stays:
        # reversed, that is the first row
        row_at[place_S[::-1]] = np.arange(len(place_S), dtype=np.int32)[::-1]
        return starts_P, row_at


RIGHT = "right"


@dataclass(frozen=True, eq=False)
class Tally:
    """Counts over the first N samples of each of P problems.

    `n_P` counts graded samples, `right_P` the right ones, which `right_PN` marks (False without a
    grade). `statuses`, `truncated` (at the limit of tokens) and `tokens` are over all graded
    samples, `right_truncated` over the right ones. `lacking` of the N x P samples are not stored or
    not graded: a result over N samples per problem needs it to be 0.
    """

    problem_ids: tuple[str, ...]
    n_P: NDArray[np.int64]
    right_P: NDArray[np.int64]
    right_PN: NDArray[np.bool_]
    statuses: Counter[str]
    truncated: int
    right_truncated: int
    tokens: int
    lacking: int


def tally_of(
    inventory: Inventory,
    status_S: Integers,
    statuses: Sequence[str],
    problem_ids: Sequence[str],
    n: int,
) -> Tally:
    """Return the tally of samples below `n` of these problems.

    `status_S` is each sample's status as an index into `statuses`, -1 without a grade.
    """
    counted = np.flatnonzero(inventory.select(problem_ids, n) & (status_S >= 0))
    status = status_S[counted]
    number = {id_: i for i, id_ in enumerate(problem_ids)}
    numbers = np.array([number.get(id_, -1) for id_ in inventory.problem_ids], dtype=np.int64)
    problem = numbers[inventory.problem_S[counted]]
    right = status == (statuses.index(RIGHT) if RIGHT in statuses else -1)
    right_PN = np.zeros((len(problem_ids), n), dtype=bool)
    right_PN[problem, inventory.index_S[counted]] = right
    by_status = np.bincount(status, minlength=len(statuses)).tolist()
    truncated = as_numpy(inventory.rows["truncated"])[counted]
    return Tally(
        tuple(problem_ids),
        np.bincount(problem, minlength=len(problem_ids)).astype(np.int64),
        right_PN.sum(axis=1, dtype=np.int64),
        right_PN,
        # in one order, whichever status happened to be stored first: reports are hashed as text
        Counter(
            {name: count for name, count in sorted(zip(statuses, by_status, strict=True)) if count}
        ),
        int(truncated.sum()),
        int(truncated[right].sum()),
        int(as_numpy(inventory.rows["tokens"])[counted].sum(dtype=np.int64)),
        n * len(problem_ids) - len(counted),
    )


FILE = "index"


def load_index(folder: Path) -> Inventory:
    """Return the inventory in the index; an empty one if the file is absent or torn."""
    rows = read_sealed(folder / FILE, INVENTORY_SCHEMA)
    if rows is None:
        return Inventory()
    parts = json.loads(rows.schema.metadata[b"parts"])
    return Inventory(tuple(PartFile(*part) for part in parts), rows)


def write_index(folder: Path, inventory: Inventory) -> None:
    """Write the index; if that fails, the parts are read again next time."""
    rows = inventory.rows.replace_schema_metadata({"parts": json.dumps(inventory.parts)})
    with suppress(OSError):
        write_sealed(folder / FILE, rows)


def refreshed(folder: Path, earlier: Inventory) -> Inventory:
    """Return `earlier` if the folder has the same parts, else the inventory with new parts read.

    Raises StoreError if two parts hold different texts for one sample.
    """
    listed = list_parts(folder)
    if tuple(listed) == earlier.parts and not earlier.damaged:
        return earlier
    earlier_parts = set(earlier.parts)
    unread = [part for part in listed if part not in earlier_parts]
    with ThreadPoolExecutor() as readers:
        read = dict(zip(unread, readers.map(lambda part: _rows(folder, part), unread), strict=True))
    damaged = {part for part, rows in read.items() if rows is None}
    parts = [part for part in listed if part not in damaged]
    inventory = Inventory(
        tuple(parts), _merged(earlier, parts, read), tuple(part.name for part in sorted(damaged))
    )
    _refuse_contradictions(folder, inventory)
    return inventory


def _rows(folder: Path, part: PartFile) -> pa.Table | None:
    """Return a part's rows, without the number of the part; None if it is damaged."""
    try:
        table = read_part(folder / part.name, ["problem_id", "index", "tokens", "finish_reason"])
    except DamagedPartError:
        return None
    import pyarrow.compute as pc  # takes 0.15 s, and sets with an index do not need it

    truncated = pc.equal(table["finish_reason"].cast(pa.string()), "length")
    return table.drop_columns("finish_reason").append_column("truncated", truncated)


def _merged(
    earlier: Inventory, parts: Sequence[PartFile], read: dict[PartFile, pa.Table | None]
) -> pa.Table:
    """Return the rows of `parts` from `earlier` and the tables `read`, ordered by part."""
    number = {part: i for i, part in enumerate(parts)}
    renumbered = np.array([number.get(part, -1) for part in earlier.parts], dtype=np.int32)
    tables = [earlier.rows.drop_columns("part")]
    numbers = [renumbered[earlier.part_S] if len(earlier.parts) else earlier.part_S]
    for part, rows in read.items():
        if rows is not None:
            tables.append(rows)
            numbers.append(np.full(len(rows), number[part], dtype=np.int32))
    part_S = np.concatenate(numbers)
    # each part's dictionary has its own codes for problem ids; unifying gives all rows one
    rows = pa.concat_tables(tables).add_column(0, INVENTORY_SCHEMA.field("part"), pa.array(part_S))
    rows = rows.unify_dictionaries().combine_chunks()
    if (part_S < 0).any():
        rows = rows.filter(part_S >= 0)
        part_S = part_S[part_S >= 0]
    # `part_S` is ascending, which `_texts` relies on; appended parts usually are already
    if (np.diff(part_S) < 0).any():
        rows = rows.take(np.argsort(part_S, kind="stable"))
    return rows


def _refuse_contradictions(folder: Path, inventory: Inventory) -> None:
    """Raise StoreError if two rows of one sample have different texts."""
    repeats = np.flatnonzero(inventory.repeats_S)
    if not len(repeats):
        return
    firsts = inventory.locate(
        inventory.problem_ids, inventory.problem_S[repeats], inventory.index_S[repeats]
    )
    text = _texts(folder, inventory, np.union1d(firsts, repeats))
    for first, second in zip(firsts.tolist(), repeats.tolist(), strict=True):
        if text[first] != text[second]:
            problem = inventory.problem_ids[inventory.problem_S[first]]
            names = [inventory.parts[inventory.part_S[row]].name for row in (first, second)]
            raise StoreError(
                f"{folder} holds different texts for sample {inventory.index_S[first]} of problem "
                f"{problem}: in {' and '.join(dict.fromkeys(names))}",
                "move one of the two elsewhere: samples that only it held are sampled again",
            )


def _texts(folder: Path, inventory: Inventory, rows: np.ndarray[Any, Any]) -> dict[int, str]:
    starts = np.searchsorted(inventory.part_S, np.arange(len(inventory.parts)))
    text_by_row: dict[int, str] = {}
    for part in np.unique(inventory.part_S[rows]).tolist():
        rows_of_part = rows[inventory.part_S[rows] == part]
        texts = read_part(folder / inventory.parts[part].name, ["text"])["text"]
        text_by_row |= zip(
            rows_of_part.tolist(), texts.take(rows_of_part - starts[part]).to_pylist(), strict=True
        )
    return text_by_row
