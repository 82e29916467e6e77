"""A table before it has a form: columns, rows in sections, cells that know their uncertainty."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

UNDEFINED = "–"


@dataclass(frozen=True)
class Measure:
    """A number with, where there is one, its standard deviation or its interval.

    With `tiny`, one above 0 that its digits would show as 0 is shown as "<0.001"; with
    `significant` the digits are counted from the first that isn't 0, as a setting's are.
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
            return UNDEFINED
        if self.significant:
            return f"{self.value:.{self.digits}g}"
        if self.tiny and 0 < self.value < 10.0**-self.digits:
            return f"<{10.0**-self.digits:.{self.digits}f}"
        text = f"{self.value:{'+' if self.signed else ''}.{self.digits}f}"
        if self.sd is not None and not math.isnan(self.sd):
            text += f" ± {self.sd:.{self.digits}f}"
        if self.interval is not None and not any(map(math.isnan, self.interval)):
            low, high = (f"{end:.{self.digits}f}" for end in self.interval)
            text += f" [{low}, {high}]"
        return text

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
    """A heading, and the `group` (as a benchmark) that neighbouring columns share."""

    name: str
    group: str = ""


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


def by_group(table: Table) -> list[Table]:
    """A table per group of columns, each beside the columns without one: for narrow terminals."""
    groups = list(dict.fromkeys(column.group for column in table.columns if column.group))
    parts = []
    for group in groups:
        kept = [i for i, column in enumerate(table.columns) if column.group in ("", group)]
        columns = tuple(table.columns[i] for i in kept)
        rows = tuple(Row(tuple(row.cells[i] for i in kept), row.section) for row in table.rows)
        notes = table.notes if group == groups[-1] else ()
        parts.append(Table(f"{table.title}, {group}", columns, rows, notes))
    return parts or [table]
