"""Reports as self-contained HTML pages: no network, no files beside them."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from sage_cli.reports.chapters import Chapter, figure_stem
from sage_cli.reports.document import Report
from sage_cli.reports.tables.table import is_text

_PROLOGUE = re.compile(r"^.*?(?=<svg)", re.DOTALL)
_ID = re.compile(r'\bid="([^"]+)"')
_REFERENCE = re.compile(r'(href="#|url\(#)')
_WIDTH = re.compile(r'<svg ([^>]*?width="([\d.]+pt)")')


@dataclass(frozen=True)
class ShownToken:
    """A token of a completion, with its guide factor q and entropy."""

    text: str
    q: float
    entropy: float


@dataclass(frozen=True)
class ShownSample:
    """A completion for the viewer; `tokens` is empty if guide factors were not computed."""

    chapter: str
    policy: str
    benchmark: str
    problem: str
    question: str
    gold: str
    grade: str
    extracted: str | None
    text: str
    tokens: tuple[ShownToken, ...] = ()


@dataclass(frozen=True)
class Page:
    """The contents of a page: a report in `report.folder`, its chapters, and completions.

    `facts` stand at the top; `marks` maps words in tables to a colour (`good`, `bad`, `open`).
    """

    report: Report
    chapters: Sequence[Chapter]
    facts: Mapping[str, str]
    samples: Sequence[ShownSample] = ()
    marks: Mapping[str, str] | None = None

    @property
    def file(self) -> Path:
        """Return its path, beside the report's other files."""
        return self.report.folder / f"{self.report.document.name}.html"


def to_html(page: Page) -> str:
    """Return the page's HTML, light or dark as the reader's system is."""
    pages = Environment(
        loader=PackageLoader("sage_cli", "reports"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    return pages.get_template("page.html").render(
        title=page.report.document.title,
        page=page,
        provenance=page.report.document.provenance,
        marks=page.marks or {},
        pictures=_pictures(page),
        is_text=is_text,
        samples=_in_script([asdict(sample) for sample in page.samples]),
    )


def _pictures(page: Page) -> Mapping[tuple[str, str], list[Markup]]:
    """Return (chapter, section) -> its figures, from the report's files."""
    several = len(page.chapters) > 1
    return {
        (chapter.name, section.name): [
            inline_svg((page.report.folder / f"{stem}.svg").read_text(encoding="utf-8"), stem)
            for figure in section.figures
            for stem in [figure_stem(chapter, section, figure, several=several)]
        ]
        for chapter in page.chapters
        for section in chapter.sections
    }


def inline_svg(text: str, stem: str) -> Markup:
    """Return a figure's SVG as an element of a page, with ids that no other figure has.

    Its width is also a CSS variable, so that the page's style keeps it readable.
    """
    element = _WIDTH.sub(r'<svg style="--own: \2" \1', _PROLOGUE.sub("", text), count=1)
    element = _ID.sub(rf'id="{stem}-\1"', element)
    return Markup(_REFERENCE.sub(rf"\g<1>{stem}-", element))


def _in_script(value: object) -> Markup:
    """Return JSON for a script element; `<` is escaped, so that no text can close it."""
    return Markup(json.dumps(value, ensure_ascii=False).replace("<", "\\u003c"))
