"""A report as JSON for the view's page."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

from sage_cli.reports.chapters import Chapter, figure_stem
from sage_cli.reports.document import Document
from sage_cli.reports.tables import Table, cell_texts, is_text

SHOWN = "shown.json"
"""The file of a report in this form, beside its others."""
Shown = dict[str, Any]
"""A report, or a part of it, as JSON for the page."""


def shown_report(
    document: Document, chapters: Sequence[Chapter], facts: Mapping[str, str]
) -> Shown:
    """Return a report that was joined from these chapters.

    `facts` stand at its top, its provenance at its end. A section's `pictures` are the stems of
    SVG files beside the report.
    """
    several = len(chapters) > 1
    return {
        "title": document.title,
        "facts": dict(facts),
        "chapters": [
            {
                "name": chapter.name,
                "title": chapter.title,
                "sections": [_section(chapter, section, several) for section in chapter.sections],
            }
            for chapter in chapters
        ],
        "provenance": asdict(document.provenance),
    }


def shown_table(table: Table) -> Shown:
    """Return a table with every cell as the terminal prints it.

    Columns of `words` are aligned left; `rules` are the places of rows that a rule precedes.
    """
    sections = [row.section for row in table.rows]
    return {
        "title": table.title,
        "columns": [
            {
                "name": column.name,
                "group": column.group,
                "words": is_text(table, index),
                **({"label": column.label} if column.label else {}),
            }
            for index, column in enumerate(table.columns)
        ],
        "rows": cell_texts(table),
        "rules": [i for i in range(1, len(sections)) if sections[i] != sections[i - 1]],
        "notes": list(table.notes),
    }


def _section(chapter: Chapter, section: Document, several: bool) -> Shown:
    curves = list(section.data.get("curves", ()))
    return {
        "name": section.name,
        "title": section.title,
        "tables": [shown_table(table) for table in section.tables],
        "pictures": [
            figure_stem(chapter, section, figure, several=several) for figure in section.figures
        ],
        "k": list(section.data["k"]) if curves else [],
        "curves": curves,
        "notes": list(section.notes),
    }
