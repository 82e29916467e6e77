"""A table before it has a form: columns, rows in sections, cells that know their uncertainty."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

UNDEFINED = "–"


@dataclass(frozen=True)
class Measure:
    """A number with, where there is one, its standard deviation or its interval.

    With `tiny`, one above 0 that its digits would show as 0 is shown as "<0.001"; with
    `significant` the digits are counted from the first that isn't 0, as a setting's are. A value
    of NaN is undefined; where there is an interval all the same, it is shown alone.
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
        """`[0.010, 0.025]`; empty where there is no interval."""
        if self.interval is None or any(map(math.isnan, self.interval)):
            return ""
        low, high = (f"{end:.{self.digits}f}" for end in self.interval)
        return f"[{low}, {high}]"

    def parts(self) -> dict[str, float]:
        """Every number in it by name, "" for the value itself; undefined ones are left out."""
        low, high = self.interval or (None, None)
        named = {"": self.value, "sd": self.sd, "low": low, "high": high}
        return {k: v for k, v in named.items() if v is not None and not math.isnan(v)}


Cell = str | int | Measure

Scores = Mapping[str, Mapping[int, Measure]]
"""Benchmark -> k -> pass@k, of one model."""


@dataclass(frozen=True)
class Column:
    """A heading, and the `group` (as a benchmark) that neighbouring columns share.

    Columns of one `part` stay together where a table is too wide: by default those of a group.
    """

    name: str
    group: str = ""
    part: str = ""


@dataclass(frozen=True)
class Row:
    """One cell per column; a change of `section` draws a rule."""

    cells: tuple[Cell, ...]
    section: str = ""


@dataclass(frozen=True)
class Table:
    """What is shown, with notes that say what the reader needs to judge the numbers."""

    title: str
    columns: tuple[Column, ...]
    rows: tuple[Row, ...]
    notes: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        for row in self.rows:
            if len(row.cells) != len(self.columns):
                raise ValueError(f"{len(row.cells)} cells in a row of {len(self.columns)} columns")


def is_text(table: Table, place: int) -> bool:
    """Whether the column at `place` holds words; they stand on the left."""
    return any(isinstance(row.cells[place], str) for row in table.rows)


def narrowed(table: Table, fits: Callable[[Table], bool]) -> list[Table]:
    """`table` where it fits, else several: each as many parts as fit, beside what is in no part.

    In a table without parts the first columns that tell all rows apart stay, and every other
    column is a part.
    """
    if fits(table):
        return [table]
    named = any(map(_part, table.columns))
    if not named:
        keys = _key_columns(table)
        apart = tuple(replace(column, part=column.name) for column in table.columns[keys:])
        table = replace(table, columns=(*table.columns[:keys], *apart))
    names = list(dict.fromkeys(part for column in table.columns if (part := _part(column))))
    if len(names) < 2:
        return [table]
    packed: list[list[str]] = [names[:1]]
    for name in names[1:]:
        if fits(_only(table, [*packed[-1], name])):
            packed[-1].append(name)
        else:
            packed.append([name])
    cut = [_only(table, kept) for kept in packed]
    titles = (
        [f"{table.title}: {', '.join(kept)}" for kept in packed]
        if named
        else [table.title, *[f"{table.title} (continued)"] * (len(packed) - 1)]
    )
    cut = [replace(part, title=title) for part, title in zip(cut, titles, strict=True)]
    return [*cut[:-1], replace(cut[-1], notes=table.notes)]


def _key_columns(table: Table) -> int:
    """How many of the first columns it takes to tell all rows apart; 1 where none do."""
    for count in range(1, len(table.columns)):
        if len({row.cells[:count] for row in table.rows}) == len(table.rows):
            return count
    return 1


def _part(column: Column) -> str:
    return column.part or column.group


def _only(table: Table, parts: Sequence[str]) -> Table:
    """The columns of some parts, beside those of none; without the notes."""
    kept = [i for i, column in enumerate(table.columns) if _part(column) in ("", *parts)]
    columns = tuple(table.columns[i] for i in kept)
    rows = tuple(Row(tuple(row.cells[i] for i in kept), row.section) for row in table.rows)
    return Table(table.title, columns, rows)
