from __future__ import annotations

import json
import re
from pathlib import Path

from sage_cli.reports.chapters import Chapter, join_chapters
from sage_cli.reports.document import Document, Figure
from sage_cli.reports.page import Page, ShownSample, ShownToken, inline_svg, to_html
from sage_cli.reports.provenance import Provenance
from sage_cli.reports.tables.table import Column, Measure, Row, Table

SVG = """<?xml version="1.0"?>
<!DOCTYPE svg PUBLIC "x" "http://www.w3.org/">
<svg xmlns:xlink="http://www.w3.org/1999/xlink"><defs><clipPath id="c"/></defs>
<g clip-path="url(#c)"><use xlink:href="#c"/></g></svg>"""


def draw(path: Path) -> None:
    for ending in ("png", "svg"):
        path.with_suffix(f".{ending}").write_text(SVG)


def section(name: str, *cells: str) -> Document:
    rows = tuple(Row((cell, Measure(0.5, sd=0.1))) for cell in cells)
    table = Table(f"table of {name}", (Column("claim"), Column("pass@1", "aime")), rows)
    return Document(
        name, f"about {name}", {"value": 1}, tables=(table,), sheets={name: table},
        figures=(Figure(name, draw),), notes=("a note <b>",),
    )  # fmt: skip


CHAPTERS = [
    Chapter("one", "Chapter one", [section("claims", "holds", "<script>alert(1)</script>")]),
    Chapter("two", "Chapter two", [section("claims", "reversed")], "grpo & base on 3 problems."),
]
SAMPLE = ShownSample(
    "one", "grpo", "aime", "p1", "What is 1 < 2?", "yes", "wrong", None,
    "</script><b>no</b>", (ShownToken("no", 1.2, 0.7),),
)  # fmt: skip


def page(folder: Path) -> str:
    document = join_chapters(
        "mine", "A report", CHAPTERS, Provenance(command="sage x"), {"suite": "m"}
    )
    report = document.write(folder)
    return to_html(Page(report, CHAPTERS, {"preset": "tiny"}, [SAMPLE], {"holds": "good"}))


def test_several_documents_are_one_with_names_of_their_own(tmp_path: Path) -> None:
    document = join_chapters("mine", "A report", CHAPTERS, Provenance(), {"suite": "m"})
    report = document.write(tmp_path)
    assert {path.name for path in report.files} >= {
        "mine.json", "mine.md", "mine.tex", "one-claims.csv", "two-claims.csv", "one-claims.svg",
    }  # fmt: skip
    written = json.loads((tmp_path / "mine.json").read_text())
    assert written["chapters"][1]["sections"]["claims"]["value"] == 1
    assert written["suite"] == "m"
    assert "Chapter two: table of claims" in (tmp_path / "mine.md").read_text()
    alone = join_chapters("mine", "A report", CHAPTERS[:1], Provenance(), {})
    assert alone.tables[0].title == "table of claims"
    assert [figure.stem for figure in alone.figures] == ["claims"]


def test_the_page_needs_nothing_but_itself(tmp_path: Path) -> None:
    html = page(tmp_path)
    assert not re.findall(r'(?:src|href)="(?!#|data:)[^"]*"', html.replace("xlink:href", "x"))
    assert "@import" not in html
    assert not re.findall(r"url\((?!#)", html)


def test_what_others_wrote_is_text(tmp_path: Path) -> None:
    html = page(tmp_path)
    assert "<script>alert" not in html
    assert "&lt;script&gt;alert(1)" in html
    assert "a note &lt;b&gt;" in html
    # the completion can't end the element that holds it
    (held,) = re.findall(r'<script type="application/json" id=samples>(.*?)</script>', html)
    (sample,) = json.loads(held)
    assert sample["text"] == "</script><b>no</b>"
    assert sample["tokens"] == [{"text": "no", "q": 1.2, "entropy": 0.7}]


def test_words_have_their_colours_and_numbers_stand_on_the_right(tmp_path: Path) -> None:
    html = page(tmp_path)
    assert '<td class="words good">holds</td>' in html
    assert '<td class="words ">reversed</td>' in html
    assert '<td class="">0.500 ± 0.100</td>' in html
    assert "<small>aime</small>pass@1" in html


def test_a_chapter_begins_with_what_it_is_about(tmp_path: Path) -> None:
    html = page(tmp_path)
    assert html.count("<p>grpo &amp; base on 3 problems.</p>") == 1
    assert html.index("Chapter two</h2>") < html.index("<p>grpo &amp; base")
    alone = join_chapters("mine", "A report", CHAPTERS[1:], Provenance(), {})
    html = to_html(Page(alone.write(tmp_path), CHAPTERS[1:], {}))
    assert html.index("A report</h1>") < html.index("<p>grpo &amp; base") < html.index("<dl>")


def test_figures_share_no_ids(tmp_path: Path) -> None:
    html = page(tmp_path)
    ids = re.findall(r'\bid="?([^"\s>]+)', html)
    assert len(ids) == len(set(ids))
    inline = inline_svg(SVG, "mine")
    assert inline.startswith("<svg")
    assert 'id="mine-c"' in inline
    assert "url(#mine-c)" in inline
    assert 'xlink:href="#mine-c"' in inline


def test_a_figures_own_width_is_known_to_the_pages_style() -> None:
    inline = inline_svg('<svg xmlns="x" width="289.88pt" height="9pt"><g width="3pt"/></svg>', "a")
    assert inline.startswith('<svg style="--own: 289.88pt" xmlns="x" width="289.88pt"')
    assert inline.count("--own") == 1


def test_without_completions_there_is_no_viewer(tmp_path: Path) -> None:
    document = join_chapters("mine", "A report", CHAPTERS, Provenance(), {})
    html = to_html(Page(document.write(tmp_path), CHAPTERS, {}))
    assert "<script" not in html
    assert "Completions" not in html
