"""Several documents as one: the sections of a report."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from typing_extensions import TypedDict

from sage_cli.reports.document import Document, Figure
from sage_cli.reports.provenance import Provenance


@dataclass(frozen=True)
class Chapter:
    """Documents below one heading; `name` is a stem for their files, and an anchor on a page.

    `about` is a sentence that says what they are about.
    """

    name: str
    title: str
    sections: Sequence[Document]
    about: str = ""


class ChapterJson(TypedDict):
    """A chapter: each section's title, data and notes by its name."""

    name: str
    title: str
    about: str
    sections: dict[str, dict[str, Any]]


class ChaptersData(TypedDict):
    """The chapters, in their order."""

    chapters: list[ChapterJson]


def join_chapters(
    name: str,
    title: str,
    chapters: Sequence[Chapter],
    provenance: Provenance,
    facts: Mapping[str, Any],
) -> Document:
    """One document with all tables, sheets, figures and data, each told whose it is.

    `facts` are data beside those of the sections.
    """
    named = [_named(chapter, several=len(chapters) > 1) for chapter in chapters]
    every = [section for chapter in named for section in chapter.sections]
    data: ChaptersData = {
        "chapters": [
            {
                "name": chapter.name,
                "title": chapter.title,
                "about": chapter.about,
                "sections": {
                    one.name: {"title": one.title, **one.data, "notes": list(one.notes)}
                    for one in chapter.sections
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
        tables=tuple(table for section in every for table in section.tables),
        sheets={stem: table for section in every for stem, table in section.sheets.items()},
        figures=tuple(figure for section in every for figure in section.figures),
        notes=tuple(f"{section.title}: {note}" for section in every for note in section.notes),
    )


def figure_stem(chapter: Chapter, section: Document, figure: Figure, *, several: bool) -> str:
    """The stem of a section's figure among those of all chapters."""
    parts = [chapter.name] if several else []
    parts += [section.name] if section.name != figure.stem else []
    return "-".join((*parts, figure.stem))


def _named(chapter: Chapter, *, several: bool) -> Chapter:
    """The same with titles and stems that tell its sections from those of other chapters."""
    sections = []
    for one in chapter.sections:
        before = f"{chapter.title}: " if several else ""
        sheets = {
            f"{chapter.name}-{stem}" if several else stem: t for stem, t in one.sheets.items()
        }
        figures = [
            replace(figure, stem=figure_stem(chapter, one, figure, several=several))
            for figure in one.figures
        ]
        tables = [replace(table, title=before + table.title) for table in one.tables]
        sections.append(
            replace(one, title=before + one.title, tables=tuple(tables), sheets=sheets,
                    figures=tuple(figures))
        )  # fmt: skip
    return replace(chapter, sections=sections)
