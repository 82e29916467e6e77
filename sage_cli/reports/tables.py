"""Tables: columns, rows in sections, notes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from sage_cli.reports.estimate import Estimate

Cell = str | int | Estimate


class Detail(str):
    """A note of method or provenance, which a report's files and `--notes` show."""

    __slots__ = ()


@dataclass(frozen=True)
class Column:
    """A heading, and the `group` (such as a benchmark) that neighbouring columns share.

    Columns of a `part`, by default those of a group, stay together when a wide table is split. CSV
    and JSON have the `name`, which stays; people read the `label`, if there is one. Whole numbers
    below a `count` have thousands separators where people read them; seeds, years and IDs are no
    counts. A `detail` is left out of a terminal's table unless all notes are asked for.
    """

    name: str
    group: str = ""
    part: str = ""
    label: str = ""
    count: bool = False
    detail: bool = False

    @property
    def heading(self) -> str:
        """Return what people read: the label, or the name."""
        return self.label or self.name


def columns(names: str) -> tuple[Column, ...]:
    """Return a column for each of the names, which commas separate.

    `name=label` has a label; `name#` is a count, and `name?` a detail.
    """
    columns = []
    for text in names.split(","):
        name, _, label = text.strip().partition("=")
        marks = text.strip()[len(text.strip().rstrip("#?")) :]
        name, label = name.rstrip("#?"), label.rstrip("#?")
        columns.append(Column(name, label=label, count="#" in marks, detail="?" in marks))
    return tuple(columns)


def cell_text(column: Column, cell: Cell) -> str:
    """Return a cell as people read it below `column`."""
    return f"{cell:,}" if column.count and isinstance(cell, int) else str(cell)


@dataclass(frozen=True)
class Row:
    """One cell per column; a change of `section` draws a rule."""

    cells: tuple[Cell, ...]
    section: str = ""


@dataclass(frozen=True)
class Table:
    """Rows below columns, with notes for judging the numbers."""

    title: str
    columns: tuple[Column, ...]
    rows: tuple[Row, ...]
    notes: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        for row in self.rows:
            if len(row.cells) != len(self.columns):
                raise ValueError(f"{len(row.cells)} cells in a row of {len(self.columns)} columns")


def essential(notes: Sequence[str]) -> tuple[str, ...]:
    """Return the notes that are not details."""
    return tuple(note for note in notes if not isinstance(note, Detail))


def without_details(table: Table) -> Table:
    """Return a table without the columns and notes that are details."""
    kept = [place for place, column in enumerate(table.columns) if not column.detail]
    return replace(columns_at(table, kept), notes=essential(table.notes))


def is_text(table: Table, index: int) -> bool:
    """Return True if the column at `index` holds words, which are aligned left."""
    return any(isinstance(row.cells[index], str) for row in table.rows)


def cell_texts(table: Table) -> list[list[str]]:
    """Return every cell as people read it, row by row."""
    return [list(map(cell_text, table.columns, row.cells)) for row in table.rows]


def columns_at(table: Table, kept: Sequence[int]) -> Table:
    """Return the columns at some places, without notes."""
    columns = tuple(table.columns[i] for i in kept)
    rows = tuple(Row(tuple(row.cells[i] for i in kept), row.section) for row in table.rows)
    return Table(table.title, columns, rows)
