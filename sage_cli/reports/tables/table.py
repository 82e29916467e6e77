"""Tables: columns, rows in sections, and cells with their uncertainty."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

UNDEFINED = "–"


@dataclass(frozen=True)
class Measure:
    """A number with its standard deviation or interval, if it has one.

    With `tiny`, a positive number that its digits would show as 0 is shown as "<0.001"; with
    `significant`, digits are significant ones. NaN is undefined; its interval, if any, is shown
    alone.
    """

    value: float
    sd: float | None = None
    interval: tuple[float, float] | None = None
    digits: int = 3
    signed: bool = False
    tiny: bool = False
    significant: bool = False

    def __str__(self) -> str:
        if math.isnan(self.value):
            return self._span() or UNDEFINED
        if self.significant:
            return f"{self.value:.{self.digits}g}"
        if self.tiny and 0 < self.value < 10.0**-self.digits:
            return f"<{10.0**-self.digits:.{self.digits}f}"
        text = f"{self.value:{'+' if self.signed else ''}.{self.digits}f}"
        if self.sd is not None and not math.isnan(self.sd):
            text += f" ± {self.sd:.{self.digits}f}"
        return f"{text} {self._span()}".rstrip()

    def _span(self) -> str:
        """Return the interval as `[0.010, 0.025]`, or nothing."""
        if self.interval is None or any(map(math.isnan, self.interval)):
            return ""
        low, high = (f"{end:.{self.digits}f}" for end in self.interval)
        return f"[{low}, {high}]"

    def parts(self) -> dict[str, float]:
        """Return its defined numbers by name, "" for the value itself."""
        low, high = self.interval or (None, None)
        named = {"": self.value, "sd": self.sd, "low": low, "high": high}
        return {k: v for k, v in named.items() if v is not None and not math.isnan(v)}


class Detail(str):
    """A note of method or provenance, which a report's files and `--notes` show."""

    __slots__ = ()


Cell = str | int | Measure

Scores = Mapping[str, Mapping[int, Measure]]
"""Benchmark -> k -> pass@k of a model."""


@dataclass(frozen=True)
class Column:
    """A heading, and the `group` (as a benchmark) that neighbouring columns share.

    Columns of a `part`, by default those of a group, stay together when a wide table is split.
    """

    name: str
    group: str = ""
    part: str = ""


def columns(names: str) -> tuple[Column, ...]:
    """Return a column for each of the names, which commas separate."""
    return tuple(Column(name.strip()) for name in names.split(","))


@dataclass(frozen=True)
class Row:
    """One cell per column; a change of `section` draws a rule."""

    cells: tuple[Cell, ...]
    section: str = ""


@dataclass(frozen=True)
class Table:
    """Rows below columns, with notes for judging the numbers.

    Like a `Detail`, a table that is a `detail` is in a report's files, and printed by `--notes`.
    """

    title: str
    columns: tuple[Column, ...]
    rows: tuple[Row, ...]
    notes: tuple[str, ...] = ()
    detail: bool = False

    def __post_init__(self) -> None:
        for row in self.rows:
            if len(row.cells) != len(self.columns):
                raise ValueError(f"{len(row.cells)} cells in a row of {len(self.columns)} columns")


def essential(notes: Sequence[str]) -> tuple[str, ...]:
    """Return the notes that are no details."""
    return tuple(note for note in notes if not isinstance(note, Detail))


def is_text(table: Table, place: int) -> bool:
    """Return True if the column at `place` holds words, which are aligned left."""
    return any(isinstance(row.cells[place], str) for row in table.rows)


def narrowed(table: Table, fits: Callable[[Table], bool]) -> list[Table]:
    """Return `table` if it fits, else several, each with as many parts as fit.

    A first column of one word in all rows goes to the title. Columns of no part are in each. If
    all are of one part, every column of it is a part. If no column has a part, the first columns
    that make all rows distinct are in each, and every other column is a part. A part that is still
    too wide is taken apart itself.
    """
    if fits(table):
        return [table]
    table = _without_repeated(table)
    if fits(table):
        return [table]
    named = len({part for column in table.columns if (part := _part(column))}) > 1
    if not named:
        table = _apart(table)
    names = list(dict.fromkeys(part for column in table.columns if (part := _part(column))))
    if len(names) < 2:
        return [table]
    packed: list[list[str]] = [names[:1]]
    for name in names[1:]:
        if fits(_only(table, [*packed[-1], name])):
            packed[-1].append(name)
        else:
            packed.append([name])
    titles = [table.title, *[f"{table.title} (continued)"] * (len(packed) - 1)]
    if named:
        titles = [f"{table.title}: {', '.join(parts)}" for parts in packed]
    split = [
        replace(_only(table, parts), title=title)
        for parts, title in zip(packed, titles, strict=True)
    ]
    split[-1] = replace(split[-1], notes=table.notes)
    return [piece for part in split for piece in narrowed(part, fits)]


def _without_repeated(table: Table) -> Table:
    """Return a table of several rows whose first words, where all rows have them, are its title."""
    heads = [row.cells[: _key_columns(table) - 1] for row in table.rows[:1] if len(table.rows) > 1]
    said = [
        place
        for place, cell in enumerate(heads[0] if heads else ())
        if isinstance(cell, str) and all(row.cells[place] == cell for row in table.rows)
    ]
    if not said:
        return table
    kept = [place for place in range(len(table.columns)) if place not in said]
    common = ", ".join(str(table.rows[0].cells[place]) for place in said)
    return replace(_of(table, kept), title=f"{table.title}: {common}", notes=table.notes)


def _apart(table: Table) -> Table:
    """Return a table of one part or none with its columns as parts, but those that are in each."""
    shared = [not _part(column) for column in table.columns]
    if all(shared):
        keys = _key_columns(table)
        shared = [place < keys for place in range(len(shared))]
    heads = zip(table.columns, shared, strict=True)
    apart = (one if is_shared else replace(one, part=one.name) for one, is_shared in heads)
    return replace(table, columns=tuple(apart))


def _key_columns(table: Table) -> int:
    """Return how many of the first columns make all rows distinct; 1 if none do."""
    for count in range(1, len(table.columns)):
        if len({row.cells[:count] for row in table.rows}) == len(table.rows):
            return count
    return 1


def _part(column: Column) -> str:
    return column.part or column.group


def _only(table: Table, parts: Sequence[str]) -> Table:
    """Return the columns of some parts and of none, without notes."""
    kept = [i for i, column in enumerate(table.columns) if _part(column) in ("", *parts)]
    return _of(table, kept)


def _of(table: Table, kept: Sequence[int]) -> Table:
    """Return the columns at some places, without notes."""
    columns = tuple(table.columns[i] for i in kept)
    rows = tuple(Row(tuple(row.cells[i] for i in kept), row.section) for row in table.rows)
    return Table(table.title, columns, rows)
