"""A document for people at a terminal."""

from __future__ import annotations

from rich.console import Console
from rich.markup import escape
from rich.table import Table as RichTable
from rich.text import Text

from sage_cli.reports.document import Document
from sage_cli.reports.table import Table, is_text, narrowed

LONG_WORD = 24
"""Longer words, as paths, may be broken; runs' names are about as long."""


def print_document(document: Document, console: Console) -> None:
    """Print the tables and the notes."""
    for table in document.tables:
        print_table(table, console)
    for note in document.notes:
        console.print(Text(note, style="dim"))


def print_table(table: Table, console: Console) -> None:
    """Print a table; one that is too wide for the console in parts, each with the first columns."""
    unbound = console.options.update(width=10_000)

    def fits(part: Table) -> bool:
        # words may be broken into lines, numbers and their intervals not
        return console.measure(to_rich(part), options=unbound).minimum <= console.width

    for part in narrowed(table, fits):
        console.print(to_rich(part))


def to_rich(table: Table) -> RichTable:
    """For the terminal; print it with a rich console."""
    shown = RichTable(title=escape(table.title), title_justify="left", title_style="bold")
    shown.caption, shown.caption_justify = escape("\n".join(table.notes)) or None, "left"
    for place, column in enumerate(table.columns):
        header = "\n".join(part for part in (column.group, column.name) if part)
        words = is_text(table, place)
        shown.add_column(
            escape(header),
            justify="left" if words else "right",
            overflow="fold" if words else "ellipsis",
            min_width=_least(table, place),
        )
    for place, row in enumerate(table.rows):
        following = table.rows[place + 1 : place + 2]
        ends = bool(following) and following[0].section != row.section
        shown.add_row(*(escape(str(cell)) for cell in row.cells), end_section=ends)
    return shown


def _least(table: Table, place: int) -> int:
    """What a column needs: numbers stand in one line, and words of usual length aren't broken."""
    cells = [str(row.cells[place]) for row in table.rows]
    if not is_text(table, place):
        return max(map(len, cells), default=0)
    return min(LONG_WORD, max((len(word) for cell in cells for word in cell.split()), default=0))
