"""A document for people at a terminal."""

from __future__ import annotations

from collections.abc import Iterator

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

    def fits(part: Table) -> bool:
        lines = console.render_lines(to_rich(part), pad=False)
        text = "\n".join("".join(segment.text for segment in line) for line in lines)
        return all(word in text for word in _unbroken(part))

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
            min_width=None
            if words
            else max((len(str(r.cells[place])) for r in table.rows), default=0),
        )
    for place, row in enumerate(table.rows):
        following = table.rows[place + 1 : place + 2]
        ends = bool(following) and following[0].section != row.section
        shown.add_row(*(escape(str(cell)) for cell in row.cells), end_section=ends)
    return shown


def _unbroken(table: Table) -> Iterator[str]:
    """What has to stand in one line: numbers with their intervals, and words of usual length."""
    for place in range(len(table.columns)):
        for row in table.rows:
            cell = str(row.cells[place])
            words = cell.split() if is_text(table, place) else [cell]
            yield from (word for word in words if len(word) <= LONG_WORD)
