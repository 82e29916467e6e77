"""The initial policy by its name for people: a suite's files and JSON call it `base`."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from typing import Any

from sage_cli.reports.document import Document, Figure
from sage_cli.reports.tables import Cell, Row, Table
from sage_cli.trials.suites.declaration import BASE

INITIAL = "initial policy"
_METHOD = re.compile(rf"(?<![\w.=/-]){BASE}(?![\w.=/-])")
"""The method as a word of its own, and no part of a setting, a path or another name."""


def for_people(document: Document) -> Document:
    """Return the document with `initial policy` for `base` in tables, figures and notes.

    Data and CSV files keep the method's name.
    """
    return replace(
        document,
        tables=tuple(map(_table, document.tables)),
        figures=tuple(map(_figure, document.figures)),
        notes=tuple(map(_note, document.notes)),
    )


def named(text: str) -> str:
    """Return a text with `initial policy` for the method `base`."""
    return _METHOD.sub(INITIAL, text)


def _table(table: Table) -> Table:
    heads = (
        replace(column, name=named(column.name), group=named(column.group))
        for column in table.columns
    )
    rows = (Row(tuple(map(_cell, row.cells)), row.section) for row in table.rows)
    title, notes = named(table.title), tuple(map(_note, table.notes))
    return replace(table, title=title, columns=tuple(heads), rows=tuple(rows), notes=notes)


def _note(note: str) -> str:
    """Return a note whose subject is the method under its name; elsewhere `base` is a word."""
    return re.sub(rf"(?:(?<=less )|^){BASE}(?= on |: )", INITIAL, note)


def _cell(cell: Cell) -> Cell:
    return named(cell) if isinstance(cell, str) else cell


def _figure(figure: Figure) -> Figure:
    """Return the figure with its series renamed: they are keys of what a figure is drawn from."""
    draw = figure.draw
    if not isinstance(draw, partial):
        return figure
    keywords = {key: _keys(value) for key, value in draw.keywords.items()}
    return replace(figure, draw=partial(draw.func, *map(_keys, draw.args), **keywords))


def _keys(value: Any) -> Any:
    if not isinstance(value, Mapping):
        return value
    return {
        named(key) if isinstance(key, str) else key: _keys(inner) for key, inner in value.items()
    }
