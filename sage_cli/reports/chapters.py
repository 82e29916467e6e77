"""Chapters: several documents below headings, joined into one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from sage_cli.reports.document import Document, Figure
from sage_cli.reports.provenance import Provenance


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
        ]
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
