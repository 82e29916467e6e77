"""A document for people at a terminal."""

from __future__ import annotations

from rich.console import Console
from rich.markup import escape
from rich.table import Table as RichTable
from rich.text import Text

from sage_cli.reports.document import Document
from sage_cli.reports.table import Table, by_group, is_text


def print_document(document: Document, console: Console) -> None:
    """Print the tables and the notes.

    A table that is too wide for the console is printed as one per group of its columns.
    """
    unbound = console.options.update(width=10_000)
    for table in document.tables:
        whole = to_rich(table)
        fits = console.measure(whole, options=unbound).maximum <= console.width
        for part in [whole] if fits else map(to_rich, by_group(table)):
            console.print(part)
    for note in document.notes:
        console.print(Text(note, style="dim"))


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
        )
    for place, row in enumerate(table.rows):
        following = table.rows[place + 1 : place + 2]
        ends = bool(following) and following[0].section != row.section
        shown.add_row(*(escape(str(cell)) for cell in row.cells), end_section=ends)
    return shown
