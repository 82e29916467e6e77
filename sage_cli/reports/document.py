"""A report before it has a form: data, tables, figures and where they came from, as one thing.

Every form is one entry of `FORMS`, a function from a document to text under a file name's ending.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

from typing_extensions import TypedDict

from sage_cli import __version__
from sage_cli.json_value import json_value
from sage_cli.reports.provenance import Provenance
from sage_cli.reports.render import to_csv, to_latex, to_markdown
from sage_cli.reports.table import Table
from sage_cli.store.atomic import write_text
from sage_cli.store.json_files import json_text

FIGURES_VERSION = 3
"""Raised when figures of the same data look different, so that stored ones are drawn anew."""


class DocumentJson(TypedDict):
    """What stands in every document's JSON, beside its data: `content` is the hash of it all."""

    name: str
    title: str
    provenance: Provenance
    content: str


class ReportJson(DocumentJson):
    """The same with the folder that the document's files are in."""

    folder: str


RESERVED = frozenset(ReportJson.__annotations__)
"""Keys of the JSON that a document's data must leave alone."""


@dataclass(frozen=True)
class Figure:
    """A picture to be: `draw` leaves it at the path it is given, with `.png` and with `.svg`.

    Only `draw` imports matplotlib. It shows what the document's data say and nothing else.
    """

    stem: str
    draw: Callable[[Path], object]

    def save(self, file: Path) -> None:
        """Draw it as `file`, whose ending (.pdf, .png or .svg) says what it becomes."""
        self.draw(file)

    @property
    def files(self) -> tuple[str, str]:
        """The names of its two files."""
        return f"{self.stem}.png", f"{self.stem}.svg"


@dataclass(frozen=True)
class Document:
    """What a command found, for people and for programs.

    `name` is the stem of its files; `data` the numbers, at the top level of the JSON; `tables` are
    read by people, `sheets` (file stem -> table) become CSV; `notes` stand below the tables.
    """

    name: str
    title: str
    data: Mapping[str, Any]
    provenance: Provenance = field(default_factory=Provenance)
    tables: tuple[Table, ...] = ()
    sheets: Mapping[str, Table] = field(default_factory=dict)
    figures: tuple[Figure, ...] = ()
    notes: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if taken := RESERVED & set(self.data):
            raise ValueError(f"data of a document can't be called {', '.join(sorted(taken))}")

    @cached_property
    def content(self) -> str:
        """The hash of all that is shown; where it came from (commit, command) is left out."""
        shown = [self.data, self.notes, [figure.stem for figure in self.figures]]
        tables = [*map(to_markdown, self.tables), *self._csv.values()]
        parts = [__version__, FIGURES_VERSION, self.name, self.title, *tables, json_text(shown)]
        return hashlib.sha256("\0".join(map(str, parts)).encode()).hexdigest()

    @cached_property
    def _csv(self) -> dict[str, str]:
        return {f"{stem}.csv": to_csv(table) for stem, table in self.sheets.items()}

    def as_json(self) -> dict[str, Any]:
        """One object: `name`, `title`, `provenance`, the data, and the hash of the content."""
        return {
            "name": self.name,
            "title": self.title,
            "provenance": self.provenance.as_json(),
            **self.data,
            "content": self.content,
        }

    def write(self, folder: Path) -> Report:
        """Write every form and every figure into `folder`, each file atomically.

        What `folder` holds of this very content is left as it is: nothing is drawn twice.
        """
        vouching = folder / f"{self.name}.json"
        texts = {f"{self.name}.{ending}": form(self) for ending, form in FORMS.items()}
        texts |= self._csv
        files = (*texts, *(file for figure in self.figures for file in figure.files))
        drawn = _content_in(vouching) == self.content
        if not drawn:
            # The JSON is the last to come back: while it is there, so is all that it vouches for.
            vouching.unlink(missing_ok=True)
        for figure in self.figures:
            if not drawn or not all((folder / file).is_file() for file in figure.files):
                figure.draw(folder / figure.stem)
        for name, text in sorted(texts.items(), key=lambda item: item[0] == vouching.name):
            if not _holds(folder / name, text):
                write_text(folder / name, text)
        return Report(self, folder, tuple(folder / file for file in files))


@dataclass(frozen=True)
class Report:
    """A document and the files that hold it."""

    document: Document
    folder: Path
    files: tuple[Path, ...]

    def as_json(self) -> dict[str, Any]:
        """The document as one object, and where its files are."""
        return {**self.document.as_json(), "folder": str(self.folder)}


def markdown(document: Document) -> str:
    """The tables under the title, which may be the one table's own, and the notes as a list."""
    parts = [*map(to_markdown, document.tables)]
    if document.title not in [table.title for table in document.tables]:
        parts.insert(0, f"# {document.title}\n")
    if document.notes:
        parts.append("".join(f"- {note}\n" for note in document.notes))
    return "\n".join(parts)


def latex(document: Document) -> str:
    """The tables, one below the other."""
    return "\n".join(map(to_latex, document.tables))


FORMS: Mapping[str, Callable[[Document], str]] = {
    "json": lambda document: json_text(document.as_json()),
    "md": markdown,
    "tex": latex,
}
"""Ending of a file -> the form that it holds."""


def _content_in(path: Path) -> str | None:
    """The content hash that a document's JSON names; None where there is none."""
    try:
        held = json_value(path.read_bytes())
    except (OSError, ValueError):
        return None
    return held.get("content") if isinstance(held, dict) else None


def _holds(path: Path, text: str) -> bool:
    return path.is_file() and path.read_bytes() == text.encode()
