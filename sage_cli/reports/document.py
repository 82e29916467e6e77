"""Documents: data, tables, figures and notes of a report, in every format of `FORMATS`."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any

from sage_cli import __version__
from sage_cli.reports.provenance import Provenance
from sage_cli.reports.table_files import to_csv, to_latex, to_markdown
from sage_cli.reports.tables import Table, essential, without_details
from sage_cli.store.file_names import portable
from sage_cli.store.files import write_text
from sage_cli.store.json_files import CorruptFileError, json_text, read_object, with_checksum

FIGURES_VERSION = 8
"""Raised when figures of the same data look different, so that stored ones are replaced."""
RESERVED = frozenset({"name", "title", "provenance", "content", "checksum", "folder"})
"""Keys of the JSON that a document's data may not use."""


def report_folder(root: Path, name: str) -> Path:
    """Return the folder of a report below `root`."""
    return root / "reports" / portable(name)


@dataclass(frozen=True)
class Figure:
    """A picture of a document: `draw` saves it at the path it is given, with the suffixes `.png`
    and `.svg`.

    Only `draw` imports matplotlib. It shows the document's data and nothing else.
    """

    stem: str
    draw: Callable[[Path], object]

    @property
    def files(self) -> tuple[str, str]:
        """Return the names of its two files."""
        return f"{self.stem}.png", f"{self.stem}.svg"


@dataclass(frozen=True)
class Document:
    """The results of a command, for people and for programs.

    `name` is the stem of its files; `data` the numbers, at the top level of the JSON; `tables` are
    for people, `sheets` (file stem -> table) become CSV files; `verdicts`, what was found in a
    sentence each, stand above the tables, and `notes` below.
    """

    name: str
    title: str
    data: Mapping[str, Any]
    provenance: Provenance = field(default_factory=Provenance)
    tables: tuple[Table, ...] = ()
    sheets: Mapping[str, Table] = field(default_factory=dict)
    figures: tuple[Figure, ...] = ()
    notes: tuple[str, ...] = ()
    verdicts: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if taken := RESERVED & set(self.data):
            raise ValueError(f"data of a document can't be called {', '.join(sorted(taken))}")

    @property
    def all_notes(self) -> tuple[str, ...]:
        """Return the notes, the last of them how the samples were taken."""
        sampled = self.provenance.sampled
        return (*self.notes, sampled) if sampled else self.notes

    @cached_property
    def content(self) -> str:
        """Return the hash of all that is shown, without its provenance (commit, command)."""
        shown = [self.data, self.all_notes, [figure.stem for figure in self.figures]]
        shown += [self.verdicts] if self.verdicts else []
        tables = [*map(to_markdown, self.tables), *self._csv.values()]
        parts = [__version__, FIGURES_VERSION, self.name, self.title, *tables, json_text(shown)]
        return hashlib.sha256("\0".join(map(str, parts)).encode()).hexdigest()

    @cached_property
    def _csv(self) -> dict[str, str]:
        return {f"{portable(stem)}.csv": to_csv(table) for stem, table in self.sheets.items()}

    @property
    def essentials(self) -> Document:
        """Return it without the columns and notes that are details."""
        tables = tuple(map(without_details, self.tables))
        return replace(self, tables=tables, notes=essential(self.notes))

    def as_json(self) -> dict[str, Any]:
        """Return one object: `name`, `title`, `provenance`, the data, and the content's hash."""
        return {
            "name": self.name,
            "title": self.title,
            "provenance": asdict(self.provenance),
            **self.data,
            "content": self.content,
        }

    def write(self, folder: Path) -> Report:
        """Write every format and every figure into `folder`, each file atomically.

        Figures that `folder` has with the same content are not drawn again.
        """
        json_file = folder / f"{self.name}.json"
        texts = {f"{self.name}.{ending}": to_text(self) for ending, to_text in FORMATS.items()}
        texts |= self._csv
        files = (*texts, *(file for figure in self.figures for file in figure.files))
        current = (_stored(json_file) or {}).get("content") == self.content
        if not current:
            # the JSON is written last: while it is there, so are all other files of its content
            json_file.unlink(missing_ok=True)
        for figure in self.figures:
            if not current or not all((folder / file).is_file() for file in figure.files):
                figure.draw(folder / figure.stem)
        for name, text in sorted(texts.items(), key=lambda item: item[0] == json_file.name):
            file = folder / name
            if not file.is_file() or file.read_bytes() != text.encode():
                write_text(file, text)
        return Report(self, folder, tuple(folder / file for file in files))


@dataclass(frozen=True)
class Report:
    """A document and the files that hold it."""

    document: Document
    folder: Path
    files: tuple[Path, ...]

    def as_json(self) -> dict[str, Any]:
        """Return the document as one object with the folder of its files."""
        return {**self.document.as_json(), "folder": str(self.folder)}


def markdown(document: Document) -> str:
    """Return the title (unless it is a table's), verdicts, tables, and the notes as a list."""
    verdicts = [" ".join(document.verdicts) + "\n"] if document.verdicts else []
    parts = [*verdicts, *map(to_markdown, document.tables)]
    if document.title not in [table.title for table in document.tables]:
        parts.insert(0, f"# {document.title}\n")
    if document.all_notes:
        parts.append("".join(f"- {note}\n" for note in document.all_notes))
    return "\n".join(parts)


def latex(document: Document) -> str:
    """Return the tables, one below the other."""
    return "\n".join(map(to_latex, document.tables))


FORMATS: Mapping[str, Callable[[Document], str]] = {
    "json": lambda document: json_text(with_checksum(document.as_json())),
    "md": markdown,
    "tex": latex,
}
"""Ending of a file's name -> its text."""


def _stored(path: Path) -> dict[str, Any] | None:
    """Return a document's JSON; None if it is absent, corrupt or was edited."""
    try:
        return read_object(path, "")
    except (OSError, CorruptFileError):
        return None
