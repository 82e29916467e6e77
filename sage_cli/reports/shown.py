"""Reports as the page shows them: chapters, tables as texts, and the names of their pictures."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from typing_extensions import TypedDict

from sage_cli.reports.chapters import Chapter, figure_stem
from sage_cli.reports.document import Document
from sage_cli.reports.passk import CurveJson
from sage_cli.reports.tables.table import Table, is_text

SHOWN = "shown.json"
"""The file of a report in this form, beside its others."""


class ShownColumn(TypedDict):
    """A heading; `group` is shared with its neighbours, and `words` are aligned left."""

    name: str
    group: str
    words: bool


class ShownTable(TypedDict):
    """A table whose cells are texts; `rules` are the places of rows that a rule precedes."""

    title: str
    columns: list[ShownColumn]
    rows: list[list[str]]
    rules: list[int]
    notes: list[str]


class ShownSection(TypedDict):
    """A document: its tables and notes, and curves at `k`, empty where it has none.

    `pictures` are the stems of SVG files beside the report.
    """

    name: str
    title: str
    tables: list[ShownTable]
    pictures: list[str]
    k: list[int]
    curves: list[CurveJson]
    notes: list[str]


class ShownChapter(TypedDict):
    """Sections below a heading, with a sentence about them."""

    name: str
    title: str
    about: str
    sections: list[ShownSection]


class ShownReport(TypedDict):
    """A report: `facts` stand at its top, its provenance at its end."""

    title: str
    facts: dict[str, str]
    chapters: list[ShownChapter]
    provenance: dict[str, Any]


def shown_report(
    document: Document, chapters: Sequence[Chapter], facts: Mapping[str, str]
) -> ShownReport:
    """Return a report that was joined from these chapters."""
    several = len(chapters) > 1
    return {
        "title": document.title,
        "facts": dict(facts),
        "chapters": [
            {
                "name": chapter.name,
                "title": chapter.title,
                "about": chapter.about,
                "sections": [_section(chapter, one, several) for one in chapter.sections],
            }
            for chapter in chapters
        ],
        "provenance": document.provenance.as_json(),
    }


def shown_table(table: Table) -> ShownTable:
    """Return a table with every cell as the terminal prints it."""
    sections = [row.section for row in table.rows]
    return {
        "title": table.title,
        "columns": [
            {"name": column.name, "group": column.group, "words": is_text(table, place)}
            for place, column in enumerate(table.columns)
        ],
        "rows": [[str(cell) for cell in row.cells] for row in table.rows],
        "rules": [i for i in range(1, len(sections)) if sections[i] != sections[i - 1]],
        "notes": list(table.notes),
    }


def _section(chapter: Chapter, one: Document, several: bool) -> ShownSection:
    has_curves = "curves" in one.data
    return {
        "name": one.name,
        "title": one.title,
        "tables": [shown_table(table) for table in one.tables],
        "pictures": [figure_stem(chapter, one, figure, several=several) for figure in one.figures],
        "k": list(one.data["k"]) if has_curves else [],
        "curves": list(one.data["curves"]) if has_curves else [],
        "notes": list(one.notes),
    }
