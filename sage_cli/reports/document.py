"""Documents: data, tables, figures and provenance of a report, and its files in every format.

A format is an entry of `FORMATS`: the ending of a file's name, and a function to its text. Several
documents are joined into one as chapters, which the page shows as JSON.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import cached_property
from pathlib import Path, PurePath
from typing import Any

from rich.console import Console
from rich.text import Text

from sage_cli import __version__
from sage_cli.counted import agreeing
from sage_cli.grading.grades import STATUSES, status_in_words
from sage_cli.metrics.counts import SeedCounts
from sage_cli.reports.tables import (
    Table,
    cell_texts,
    essential,
    is_text,
    print_table,
    to_csv,
    to_latex,
    to_markdown,
    without_details,
)
from sage_cli.settings.own_code import names_code
from sage_cli.store.file_names import portable
from sage_cli.store.files import write_text
from sage_cli.store.json_files import CorruptFileError, json_text, read_object, with_checksum


@dataclass(frozen=True)
class PolicyUsed:
    """A model: its label in tables, its path, its weights' fingerprint, its run and base."""

    label: str
    path: str | None = None
    fingerprint: str | None = None
    run: str | None = None
    base: str | None = None


@dataclass(frozen=True)
class GraderUsed:
    """The grader of answers; `tolerance` is relative, `version` the grader's identity."""

    mode: str
    judge: str | None = None
    tolerance: float | None = None
    version: str | None = None


@dataclass(frozen=True)
class BenchmarkUsed:
    """A benchmark: its problems, their origins (file hashes, Hub commits), and their grader."""

    name: str
    problems: int | None = None
    origins: tuple[str, ...] | None = None
    grader: GraderUsed | None = None


@dataclass(frozen=True)
class SamplesUsed:
    """A sample set: its policy, seed, prompt template, and sampling engine."""

    key: str
    policy: str | None = None
    seed: int | None = None
    template: str | None = None
    engine: str | None = None


@dataclass(frozen=True)
class Provenance:
    """Everything needed to judge the numbers and to compute them again.

    `sampling` are the settings of `sampling`, `n` the samples of each problem, `seeds` the
    evaluation seeds, `files` the hashes of files of counts. There is no date, so that the same data
    give the same bytes.
    """

    policies: tuple[PolicyUsed, ...] | None = None
    benchmarks: tuple[BenchmarkUsed, ...] | None = None
    samples: tuple[SamplesUsed, ...] | None = None
    sampling: Mapping[str, Any] | None = None
    n: int | None = None
    seeds: tuple[int, ...] | None = None
    files: Mapping[str, str] | None = None
    versions: Mapping[str, str] | None = None
    commit: str | None = None
    command: str | None = None

    @classmethod
    def here(cls, surroundings: Mapping[str, Any]) -> Provenance:
        """Return versions, commit and command, which are known before anything is measured."""
        return cls(**{key: surroundings[key] for key in ("versions", "commit", "command")})

    @property
    def sampled(self) -> str | None:
        """The line below a table of pass@k: see `sampled_as`."""
        return sampled_as(asdict(self))


_OFF = {"top_p": 1, "top_k": 0}
"""Values that leave no token out, which need not be told."""


def sampled_as(provenance: Mapping[str, Any]) -> str | None:
    """Return `temperature 1, min_p 0, max_tokens 48; n 256; aime (60 problems); grading strict`.

    None where nothing is known of sampling. `provenance` is as it is stored.
    """
    sampling, benchmarks = provenance.get("sampling"), provenance.get("benchmarks") or ()
    if not sampling:
        return None
    names = ("temperature", "min_p", "top_p", "top_k", "max_tokens")
    recorded = {name: sampling[name] for name in names if sampling.get(name) is not None}
    settings = [f"{k} {v:g}" for k, v in recorded.items() if _OFF.get(k) != v]
    n, seeds = provenance.get("n"), provenance.get("seeds") or ()
    counts = [f"n {n}"] if n else []
    counts += [f"evaluation seeds {', '.join(map(str, seeds))}"] if len(seeds) > 1 else []
    on = [
        f"{used['name']} ({used['problems']} problem{'s' * (used['problems'] != 1)})"
        for used in benchmarks
    ]
    graders = {_graded_by(used["grader"]) for used in benchmarks if used.get("grader")}
    return "; ".join(", ".join(part) for part in (settings, counts, on, sorted(graders)) if part)


def _graded_by(grader: Mapping[str, Any]) -> str:
    """Return `grading strict`, or `grading strict by mine.py:near` for a judge of one's own."""
    judge = grader.get("judge")
    own = f" by {PurePath(judge).name}" if judge is not None and names_code(judge) else ""
    return f"grading {grader['mode']}{own}"


def record(measured: SeedCounts) -> dict[str, Any]:
    """Return a measurement as JSON data: grades, and n and c of every problem."""
    counts = measured.counts
    return {
        "seed": measured.seed,
        "sample_set": measured.sample_set,
        "statuses": dict(measured.statuses),
        "truncated": measured.truncated,
        "right_truncated": measured.right_truncated,
        "problems": [
            {"problem": id_, "n": int(n), "c": int(c)}
            for id_, n, c in zip(counts.problem_ids, counts.n_P, counts.c_P, strict=True)
        ],
    }


def grade_notes(measured: Sequence[SeedCounts]) -> tuple[str, ...]:
    """Return notes such as `grpo on aime, evaluation seed 0: 40 correct, 8 wrong; 2 truncated`."""
    return tuple(
        f"{counted.policy} on {counted.benchmark}, evaluation seed {counted.seed}: "
        f"{_grades(counted)}"
        for counted in measured
    )


def is_mostly_unread(measured: SeedCounts) -> bool:
    """Return True if no answer was read from half of the samples or more."""
    return 2 * measured.statuses.get("unparseable", 0) >= sum(measured.statuses.values())


def _grades(measured: SeedCounts) -> str:
    """Return the numbers of grades, in the order of `STATUSES`."""
    given = sorted(measured.statuses, key=lambda status: (*STATUSES, status).index(status))
    counted = ", ".join(
        f"{measured.statuses[status]:,} {status_in_words(status)}" for status in given
    )
    if measured.truncated:
        counted += f"; of all, {measured.truncated:,} "
        counted += f"{agreeing(measured.truncated, 'is', 'are')} truncated"
    if passed := measured.right_truncated:
        share = 100 * passed / measured.statuses["right"]
        counted += f", of which {passed:,} {agreeing(passed, 'is', 'are')} correct "
        counted += f"({share:.3g}% of the correct ones)"
    return counted


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


def print_document(document: Document, console: Console, *, details: bool = False) -> None:
    """Print the tables and the notes; with `details` also those that are details."""
    shown = document if details else document.essentials
    for verdict in shown.verdicts:
        console.print(Text(verdict, style="bold"))
    for table in shown.tables:
        print_table(table, console)
    for note in shown.all_notes:
        console.print(Text(note, style="dim"))
    if not details and shown != document:
        more = f"more notes are in {document.name}.md; --notes prints them"
        console.print(Text(more, style="dim"))
