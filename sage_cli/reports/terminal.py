"""Documents and tables on the terminal."""

from __future__ import annotations

from collections.abc import Iterator
from textwrap import wrap

from rich.console import Console
from rich.markup import escape
from rich.table import Table as RichTable
from rich.text import Text

from sage_cli.reports.document import Document
from sage_cli.reports.tables.table import Table, is_text, narrowed

LONG_WORD = 24
"""Longer words, as paths, may be broken; names of runs are about as long."""
HEADER_WIDTH = 12
"""Width in characters at which headings of narrow columns are broken."""

CORNERS = ("┓", "+")
"""How the first line of a whole table ends, with lines and on a terminal without."""


def print_document(document: Document, console: Console, *, details: bool = False) -> None:
    """Print the tables and the notes; with `details` also those that are details."""
    shown = document if details else document.essentials
    for table in shown.tables:
        print_table(table, console)
    for note in shown.notes:
        console.print(Text(note, style="dim"))
    if not details and shown != document:
        more = f"more notes are in {document.name}.md; --notes prints them"
        console.print(Text(more, style="dim"))


def print_table(table: Table, console: Console) -> None:
    """Print a table with its title and notes, in parts if it is wider than the console."""

    def fits(part: Table) -> bool:
        rendered = console.render_lines(to_rich(part), pad=False)
        lines = ["".join(segment.text for segment in line) for line in rendered]
        text = "\n".join(lines)
        return lines[0].endswith(CORNERS) and all(word in text for word in _unbroken(part))

    # not rich's own title and caption, which would be as narrow as the table
    for part in narrowed(table, fits):
        console.print(Text(part.title, style="bold"))
        console.print(to_rich(part))
        for note in part.notes:
            console.print(Text(note, style="dim"))


def to_rich(table: Table) -> RichTable:
    """Return the columns and rows as a rich table."""
    shown = RichTable()
    for place in range(len(table.columns)):
        words = is_text(table, place)
        header = _header(table, place)
        shown.add_column(
            escape("\n".join(header)),
            justify="left" if words else "right",
            overflow="fold" if words else "ellipsis",
            min_width=None if words else max(_widest_cell(table, place), *map(len, header)),
        )
    for place, row in enumerate(table.rows):
        following = table.rows[place + 1 : place + 2]
        ends = bool(following) and following[0].section != row.section
        shown.add_row(*(escape(str(cell)) for cell in row.cells), end_section=ends)
    return shown


def _header(table: Table, place: int) -> list[str]:
    """Return a column's heading in lines; long ones, as names of runs, break at hyphens."""
    column = table.columns[place]
    width = max(_widest_cell(table, place), HEADER_WIDTH)
    return [line for part in (column.group, column.name) for line in wrap(part, width)]


def _widest_cell(table: Table, place: int) -> int:
    return max((len(str(row.cells[place])) for row in table.rows), default=0)


def _unbroken(table: Table) -> Iterator[str]:
    """Yield what must stay on a line: numbers with intervals, words of usual length."""
    for place in range(len(table.columns)):
        if not is_text(table, place):
            yield from _header(table, place)
        for row in table.rows:
            cell = str(row.cells[place])
            words = cell.split() if is_text(table, place) else [cell]
            yield from (word for word in words if len(word) <= LONG_WORD)
