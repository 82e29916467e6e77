"""Several documents as one report, with files of their own, and as the page shows them."""

import json

from sage_cli.reports.chapters import Chapter, join_chapters
from sage_cli.reports.document import Document, Figure
from sage_cli.reports.estimate import Estimate
from sage_cli.reports.provenance import Provenance
from sage_cli.reports.shown import shown_report, shown_table
from sage_cli.reports.tables import Column, Row, Table


def draw(path):
    for ending in ("png", "svg"):
        path.with_suffix(f".{ending}").write_text("<svg/>")


def section(name, *cells, **data):
    rows = tuple(Row((cell, Estimate(0.5, sd=0.1)), section=cell) for cell in cells)
    table = Table(f"table of {name}", (Column("claim"), Column("pass@1", "aime")), rows, ("n",))
    return Document(
        name,
        f"about {name}",
        {"value": 1, **data},
        tables=(table,),
        sheets={name: table},
        figures=(Figure(name, draw),),
        notes=("a note <b>",),
    )


CHAPTERS = [
    Chapter("one", "Chapter one", [section("claims", "holds", "<script>alert(1)</script>")]),
    Chapter("two", "Chapter two", [section("claims", "reversed")]),
]


def test_several_documents_are_one_with_names_of_their_own(tmp_path):
    document = join_chapters("mine", "A report", CHAPTERS, Provenance(), {"suite": "m"})
    report = document.write(tmp_path)
    assert {path.name for path in report.files} >= {
        "mine.json",
        "mine.md",
        "mine.tex",
        "one-claims.csv",
        "two-claims.csv",
        "one-claims.svg",
    }
    written = json.loads((tmp_path / "mine.json").read_text())
    assert written["chapters"][1]["sections"]["claims"]["value"] == 1
    assert written["suite"] == "m"
    assert "Chapter two: table of claims" in (tmp_path / "mine.md").read_text()
    alone = join_chapters("mine", "A report", CHAPTERS[:1], Provenance(), {})
    assert alone.tables[0].title == "table of claims"
    assert [figure.stem for figure in alone.figures] == ["claims"]


def test_a_report_names_the_files_of_its_pictures(tmp_path):
    document = join_chapters("mine", "A report", CHAPTERS, Provenance(command="sage x"), {})
    folder = document.write(tmp_path).folder
    shown = shown_report(document, CHAPTERS, {"preset": "tiny"})
    assert (shown["title"], shown["facts"]) == ("A report", {"preset": "tiny"})
    assert shown["provenance"]["command"] == "sage x"
    first, second = shown["chapters"]
    assert second["title"] == "Chapter two"
    (one,) = first["sections"]
    assert one["title"] == "about claims"  # without the chapter's name, which stands above
    assert one["notes"] == ["a note <b>"]
    for chapter in shown["chapters"]:
        for stem in chapter["sections"][0]["pictures"]:
            assert (folder / f"{stem}.svg").is_file()
    alone = shown_report(document, CHAPTERS[:1], {})
    assert alone["chapters"][0]["sections"][0]["pictures"] == ["claims"]


def test_curves_come_with_their_ks_and_tables_with_groups_and_rules():
    curve = {"policy": "base", "pass@k": [0.5]}
    with_curves = Chapter("one", "One", [section("passk", "x", k=[1], curves=[curve])])
    shown = shown_report(section("x"), [with_curves, CHAPTERS[0]], {})
    (passk,), (claims,) = (chapter["sections"] for chapter in shown["chapters"])
    assert (passk["k"], passk["curves"]) == ([1], [curve])
    assert (claims["k"], claims["curves"]) == ([], [])
    (table,) = CHAPTERS[0].sections[0].tables
    shown = shown_table(table)
    assert shown["columns"] == [
        {"name": "claim", "group": "", "words": True},
        {"name": "pass@1", "group": "aime", "words": False},
    ]
    assert shown["rows"][0] == ["holds", "0.500 ± 0.100"]
    assert shown["rules"] == [1]  # another section begins at the second row
    assert shown["notes"] == ["n"]
