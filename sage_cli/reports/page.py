"""A report as one HTML page that needs nothing but itself: no network, no files beside it."""

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
from sage_cli.reports.table import is_text

_PROLOGUE = re.compile(r"^.*?(?=<svg)", re.DOTALL)
_ID = re.compile(r'\bid="([^"]+)"')
_REFERENCE = re.compile(r'(href="#|url\(#)')
_WIDTH = re.compile(r'<svg ([^>]*?width="([\d.]+pt)")')


@dataclass(frozen=True)
class ShownToken:
    """A token of a completion on which a guide acted."""

    text: str
    q: float
    entropy: float


@dataclass(frozen=True)
class ShownSample:
    """A completion for the viewer; without `tokens` nobody looked what a guide did to it."""

    chapter: str
    policy: str
    benchmark: str
    problem: str
    question: str
    gold: str
    verdict: str
    extracted: str | None
    text: str
    tokens: tuple[ShownToken, ...] = ()


@dataclass(frozen=True)
class Page:
    """What a page shows: a report written in `report.folder`, its chapters, completions.

    `facts` stand at the top; `marks` gives words in tables a colour (`good`, `bad` or `open`).
    """

    report: Report
    chapters: Sequence[Chapter]
    facts: Mapping[str, str]
    samples: Sequence[ShownSample] = ()
    marks: Mapping[str, str] | None = None

    @property
    def file(self) -> Path:
        """Where it belongs: beside the report's other forms."""
        return self.report.folder / f"{self.report.document.name}.html"


def to_html(page: Page) -> str:
    """The page, light or dark as the reader's system is."""
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
    """(chapter, section) -> its figures, from the files that the report left."""
    several = len(page.chapters) > 1
    found: dict[tuple[str, str], list[Markup]] = {}
    for chapter in page.chapters:
        for section in chapter.sections:
            stems = [figure_stem(chapter, section, one, several=several) for one in section.figures]
            found[chapter.name, section.name] = [
                inline_svg((page.report.folder / f"{stem}.svg").read_text(encoding="utf-8"), stem)
                for stem in stems
            ]
    return found


def inline_svg(text: str, stem: str) -> Markup:
    """A figure's file as an element of a page, whose ids no other figure has.

    Its own width is there for the page's style too, which mayn't shrink it beyond being read.
    """
    element = _WIDTH.sub(r'<svg style="--own: \2" \1', _PROLOGUE.sub("", text), count=1)
    element = _ID.sub(rf'id="{stem}-\1"', element)
    return Markup(_REFERENCE.sub(rf"\g<1>{stem}-", element))


def _in_script(value: object) -> Markup:
    """JSON that no text in it can end the script element of."""
    return Markup(json.dumps(value, ensure_ascii=False).replace("<", "\\u003c"))
