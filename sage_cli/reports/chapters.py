"""Chapters: several documents joined into one report, and the report as the page shows it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

from sage_cli.reports.document import Document, Figure
from sage_cli.reports.provenance import Provenance
from sage_cli.reports.tables import Table, is_text


@dataclass(frozen=True)
class Chapter:
    """Documents below a heading; `name` is a stem of their files and an anchor on a page."""

    name: str
    title: str
    sections: Sequence[Document]


def join_chapters(
    name: str,
    title: str,
    chapters: Sequence[Chapter],
    provenance: Provenance,
    facts: Mapping[str, Any],
) -> Document:
    """Return one document with all tables, sheets, figures and data, labelled by chapter.

    `facts` are data beside those of the sections.
    """
    named = [_named(chapter, several=len(chapters) > 1) for chapter in chapters]
    sections = [section for chapter in named for section in chapter.sections]
    data: dict[str, Any] = {
        "chapters": [
            {
                "name": chapter.name,
                "title": chapter.title,
                "sections": {
                    section.name: {
                        "title": section.title,
                        **section.data,
                        "notes": list(section.notes),
                    }
                    for section in chapter.sections
                },
            }
            for chapter in chapters
        ],
    }
    return Document(
        name=name,
        title=title,
        provenance=provenance,
        data={**facts, **data},
        tables=tuple(table for section in sections for table in section.tables),
        sheets={stem: table for section in sections for stem, table in section.sheets.items()},
        figures=tuple(figure for section in sections for figure in section.figures),
        notes=tuple(f"{section.title}: {note}" for section in sections for note in section.notes),
    )


def figure_stem(chapter: Chapter, section: Document, figure: Figure, *, several: bool) -> str:
    """Return the stem of a section's figure, unique among all chapters."""
    parts = [chapter.name] if several else []
    parts += [section.name] if section.name != figure.stem else []
    return "-".join((*parts, figure.stem))


def _named(chapter: Chapter, *, several: bool) -> Chapter:
    """Return the chapter with titles and stems that no other chapter has."""
    title, stem = (f"{chapter.title}: ", f"{chapter.name}-") if several else ("", "")
    sections = [
        replace(
            section,
            title=title + section.title,
            tables=tuple(replace(table, title=title + table.title) for table in section.tables),
            sheets={stem + name: table for name, table in section.sheets.items()},
            figures=tuple(
                replace(figure, stem=figure_stem(chapter, section, figure, several=several))
                for figure in section.figures
            ),
        )
        for section in chapter.sections
    ]
    return replace(chapter, sections=sections)


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
            {"name": column.name, "group": column.group, "words": is_text(table, place)}
            for place, column in enumerate(table.columns)
        ],
        "rows": [[str(cell) for cell in row.cells] for row in table.rows],
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
