"""`sage theory`, typed."""

import json
from pathlib import Path

import pytest

from sage_cli.theory import Statement

DOCS = Path(__file__).parents[4] / "docs"


@pytest.fixture(scope="module")
def answered(tmp_path_factory):
    """What `sage theory --json` leaves: exit code, the object and the folder of its files."""
    from typer.testing import CliRunner

    from sage_cli.cli.app import app

    folder = tmp_path_factory.mktemp("theory")
    result = CliRunner().invoke(app, ["theory", "--json", "--runs", str(folder / "runs")])
    return result.exit_code, json.loads(result.stdout), folder


def test_every_error_is_below_the_tolerance(answered):
    code, found, _ = answered
    assert code == 0
    assert found["holds"]
    assert len(found["statements"]) == 52
    assert all(one["error"] < 1e-6 for one in found["statements"])


def test_the_document_is_written_in_every_form(answered):
    _, found, folder = answered
    written = {path.name for path in Path(found["folder"]).iterdir()}
    assert Path(found["folder"]).parent == folder / "runs" / "reports"
    assert {"theory.json", "theory.md", "theory.csv", "theory.tex", "theory-paths.csv"} <= written
    assert {"theory-support.png", "theory-support.svg"} <= written


def test_the_page_in_docs_says_what_the_command_says(answered):
    """Each statement by name with its sentence's subject; each picture beside it."""
    page = (DOCS / "theory.md").read_text()
    for one in answered[1]["statements"]:
        assert f"**{one['name']}**" in page, one["name"]
    for name in answered[1]["pictures"]:
        assert f"theory/{name}.svg" in page
        assert (DOCS / "theory" / f"{name}.svg").is_file()


def test_a_statement_that_errs_exits_with_1_and_is_named(sage, monkeypatch):
    wrong = Statement("a slip", "2", "two and two are five", 1.0, "as printed")
    monkeypatch.setattr("sage_cli.commands.train.theory.statements", lambda: (wrong,))
    monkeypatch.setattr("sage_cli.reports.theory.DRAWINGS", {})  # drawn once is enough
    typed = sage("theory")
    assert typed.code == 1
    assert "FAILS" in typed.words
    assert "failed: a slip" in typed.words
