"""Tables and documents on a terminal, in parts where it is narrow."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from textwrap import wrap

from rich.console import Console
from rich.markup import escape
from rich.table import Table as RichTable
from rich.text import Text

from sage_cli.reports.document import Document
from sage_cli.reports.tables import Column, Table, cell_text, columns_at, is_text

LONG_WORD = 24
"""Longer words, as paths, may be broken; names of runs are about as long."""
HEADER_WIDTH = 12
"""Width in characters at which headings of narrow columns are broken."""
CORNERS = ("┓", "+")
"""How the first line of a whole table ends, with lines and on a terminal without."""


def print_table(table: Table, console: Console) -> None:
    """Print a table with its title and notes, tightly or in parts where the console is narrow."""

    def fits(part: Table, *, tight: bool = False) -> bool:
        rendered = console.render_lines(rich_table(part, tight=tight), pad=False)
        lines = ["".join(segment.text for segment in line) for line in rendered]
        text = "\n".join(lines)
        return lines[0].endswith(CORNERS) and all(word in text for word in _unbroken(part, tight))

    tight = not fits(table) and fits(table, tight=True)
    # not rich's own title and caption, which would be as narrow as the table
    for part in [table] if tight else narrowed(table, fits):
        console.print(Text(part.title, style="bold"))
        console.print(rich_table(part, tight=tight))
        for note in part.notes:
            console.print(Text(note, style="dim"))


def rich_table(table: Table, *, tight: bool = False) -> RichTable:
    """Return the columns and rows as a rich table, with fewer blanks if it is `tight`."""
    rendered = RichTable(padding=(0, 1, 0, 0 if tight else 1))
    for index in range(len(table.columns)):
        words = is_text(table, index)
        header = _header(table, index, tight)
        rendered.add_column(
            escape("\n".join(header)),
            justify="left" if words else "right",
            overflow="fold" if words else "ellipsis",
            no_wrap=not words,  # rich narrows the other columns, to the widths that are left
            min_width=None if words else max(_widest_cell(table, index), *map(len, header)),
        )
    for index, row in enumerate(table.rows):
        following = table.rows[index + 1 : index + 2]
        ends = bool(following) and following[0].section != row.section
        cells = map(escape, map(cell_text, table.columns, row.cells))
        rendered.add_row(*cells, end_section=ends)
    return rendered


def _header(table: Table, index: int, tight: bool) -> list[str]:
    """Return a column's heading in lines; long ones, such as names of runs, break at hyphens."""
    column = table.columns[index]
    width = max(_widest_cell(table, index), 1 if tight else HEADER_WIDTH)
    parts = (part.replace("-", "-\0 ") for part in (column.group, column.heading))
    lines = [line for part in parts for line in wrap(part, width, break_long_words=False)]
    return [line.replace("\0 ", "").replace("\0", "") for line in lines]


def _widest_cell(table: Table, index: int) -> int:
    column = table.columns[index]
    return max((len(cell_text(column, row.cells[index])) for row in table.rows), default=0)


def _unbroken(table: Table, tight: bool) -> Iterator[str]:
    """Yield what must stay on a line: numbers with intervals, words of usual length."""
    for index in range(len(table.columns)):
        if not is_text(table, index):
            yield from _header(table, index, tight)
        for row in table.rows:
            cell = cell_text(table.columns[index], row.cells[index])
            words = cell.split() if is_text(table, index) else [cell]
            yield from (word for word in words if len(word) <= LONG_WORD)


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
    split: list[Table] = []
    for parts, title in zip(packed, titles, strict=True):
        piece = replace(_only(table, parts), title=title)
        split += [piece] if len(parts) > 1 else narrowed(piece, fits)  # several were seen to fit
    return [*split[:-1], replace(split[-1], notes=table.notes)]


def _without_repeated(table: Table) -> Table:
    """Return a table of several rows whose first words, where all rows have them, are its title."""
    if len(table.rows) < 2:
        return table
    repeated = {
        index: cell
        for index, cell in enumerate(table.rows[0].cells[: _key_columns(table) - 1])
        if isinstance(cell, str) and all(row.cells[index] == cell for row in table.rows)
    }
    if not repeated:
        return table
    kept = [index for index in range(len(table.columns)) if index not in repeated]
    title = f"{table.title}: {', '.join(repeated.values())}"
    return replace(columns_at(table, kept), title=title, notes=table.notes)


def _apart(table: Table) -> Table:
    """Return a table of one part or none with its columns as parts, but those that are in each."""
    shared = [not _part(column) for column in table.columns]
    if all(shared):
        keys = _key_columns(table)
        shared = [index < keys for index in range(len(shared))]
    heads = zip(table.columns, shared, strict=True)
    apart = (
        column if is_shared else replace(column, part=column.name) for column, is_shared in heads
    )
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
    return columns_at(table, kept)


def print_document(document: Document, console: Console, *, details: bool = False) -> None:
    """Print the tables and the notes; with `details` also those that are details."""
    shown = document if details else document.essentials
    for verdict in shown.verdicts:
        console.print(Text(verdict, style="bold"))
    for table in shown.tables:
        print_table(table, console)
    for note in shown.all_notes:
        console.print(Text(note, style="dim"))
    if not details and shown != document:
        more = f"more notes are in {document.name}.md; --notes prints them"
        console.print(Text(more, style="dim"))
