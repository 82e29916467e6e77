"""The laboratory's document: what it says of statements, and that every picture is drawn."""

from __future__ import annotations

import math
from pathlib import Path

import pytest

from sage_cli.reports.provenance import Provenance
from sage_cli.reports.tables.render import to_latex
from sage_cli.reports.theory import theory_document
from sage_cli.reports.theory_panels import DRAWINGS
from sage_cli.theory import TOLERANCE, pictures, statements
from sage_cli.theory.statement import Statement

GOOD = Statement("one", "1, 2", "it is so", 2e-9, "as printed", {"a number": 0.5})
PATH = {"panel": "p", "name": "reset", "beta": 0.2, "mass": [0.25, 0.00123], "optimum": None}
PATHS = {"step": [1, 20], "shown": [20], "path": [PATH, {**PATH, "name": "all", "optimum": 0.0164}]}
NUMBERS = {**{name: {} for name in DRAWINGS}, "paths": PATHS}


def document(*found: Statement):
    return theory_document([one.as_json() for one in found], NUMBERS, 1e-6, Provenance())


def test_what_holds():
    shown = document(GOOD)
    assert [str(cell) for cell in shown.tables[0].rows[0].cells] == [
        "1, 2", "one", "it is so", "2.0e-09", "as printed",
    ]  # fmt: skip
    assert shown.data["holds"] is True
    assert shown.data["largest_error"] == 2e-9
    assert shown.data["statements"][0]["values"] == {"a number": 0.5}
    assert "all 1 hold; the largest error is 2.0e-09 (one)" in shown.notes


@pytest.mark.parametrize("error", [1e-6, 0.5, math.nan, math.inf])
def test_what_fails_is_named(error):
    shown = document(GOOD, Statement("two", "3", "it isn't", error, "as printed"))
    assert shown.data["holds"] is False
    assert str(shown.tables[0].rows[1].cells[3]).endswith(" FAILS")
    assert "failed: two" in shown.notes


def test_the_paths_at_the_steps_that_are_shown():
    rows = document(GOOD).tables[1].rows
    assert [[str(cell) for cell in row.cells] for row in rows] == [
        ["reset", "0.2", "0.0012", ""],
        ["all", "0.2", "0.0012", "0.0164"],
    ]


def test_every_picture_has_numbers_and_a_drawing():
    assert tuple(pictures()) == tuple(DRAWINGS)


def test_pictures_are_drawn_from_the_documents_numbers(tmp_path: Path):
    shown = theory_document([GOOD.as_json()], pictures(), TOLERANCE, Provenance())
    report = shown.write(tmp_path)
    words = {
        "solutions": ("forward KL (27)", "right, rare"),
        "anchors": ("random", "token", "branch"),
        "support": ("δ = 0.0065", "k3-corrected", "rollouts"),
        "estimators": ("random, one draw", "reward"),
        "modes": ("reverse, left", "forward"),
        "off-target": ("q must prefer", "β"),
        "paths": ("reset every 100", "natural gradient", "β = 0.04"),
    }
    for name, said in words.items():
        drawn = (tmp_path / f"theory-{name}.svg").read_text()
        for word in said:
            assert f"<!-- {word}" in drawn, (name, word)
        assert (tmp_path / f"theory-{name}.png").stat().st_size > 10_000
    assert all(file.is_file() for file in report.files)


def test_sentences_are_plain_enough_for_latex():
    for one in statements():
        assert one.sentence.isascii(), one.name
    assert r"\toprule" in to_latex(document(GOOD).tables[0])
