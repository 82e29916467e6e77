"""A document and its files: every form, nothing twice, nothing half."""

import json
import subprocess
import sys
from dataclasses import replace
from types import SimpleNamespace
from typing import Any, cast

import pytest

from sage_cli.config.load import load
from sage_cli.evaluation import compare
from sage_cli.metrics import Side
from sage_cli.reports import document as module
from sage_cli.reports.document import Document, Figure, report_folder
from sage_cli.reports.estimate import Estimate
from sage_cli.reports.provenance import PolicyUsed, Provenance
from sage_cli.reports.tables import Column, Row, Table

TABLE = Table("pass@k on aime", (Column("k"), Column("base")), (Row((1, Estimate(0.25))),), ("n",))


class Pen:
    """Draws, and counts how often."""

    def __init__(self):
        self.drawn = 0

    def __call__(self, stem):
        self.drawn += 1
        for ending in (".png", ".svg"):
            stem.parent.mkdir(parents=True, exist_ok=True)
            stem.with_name(stem.name + ending).write_text(f"{self.drawn}")


@pytest.fixture
def pen():
    return Pen()


@pytest.fixture
def document(pen):
    return Document(
        name="passk",
        title="pass@k on aime",
        data={"k": [1], "curves": [{"pass@k": [0.25], "low": [float("nan")]}]},
        provenance=Provenance(policies=(PolicyUsed("base", fingerprint="ab"),), command="sage a"),
        tables=(TABLE,),
        sheets={"passk": TABLE, "passk-more": TABLE},
        figures=(Figure("curve.v1", pen),),
        notes=("base: 1 right",),
    )


def states(folder):
    return {path.name: path.stat().st_mtime_ns for path in folder.iterdir()}


def test_every_form_is_there(document, tmp_path):
    report = document.write(tmp_path / "reports" / "x")
    assert sorted(path.name for path in report.files) == sorted(states(report.folder))
    assert set(states(report.folder)) == {
        "passk.json",
        "passk.md",
        "passk.tex",
        "passk.csv",
        "passk-more.csv",
        "curve.v1.png",
        "curve.v1.svg",
    }
    held = json.loads((report.folder / "passk.json").read_text(), parse_constant=pytest.fail)
    assert (held["name"], held["title"], held["k"]) == ("passk", "pass@k on aime", [1])
    assert held["curves"] == [{"pass@k": [0.25], "low": [None]}]
    assert held["provenance"]["policies"] == [
        {"label": "base", "path": None, "fingerprint": "ab", "run": None, "base": None}
    ]
    assert held["provenance"]["commit"] is None
    assert (report.folder / "passk.md").read_text() == (
        "**pass@k on aime**\n\n| k | base |\n| --: | --: |\n| 1 | 0.250 |\n\nn\n\n- base: 1 right\n"
    )
    assert report.as_json()["folder"] == str(report.folder)
    assert module.markdown(replace(document, title="t")).startswith("# t\n\n**pass@k on aime**")


def test_neither_the_same_again_nor_another_command_or_commit_draws_anew(document, pen, tmp_path):
    document.write(tmp_path)
    before = states(tmp_path)
    document.write(tmp_path)
    assert states(tmp_path) == before
    assert pen.drawn == 1
    document.write(tmp_path)
    before = states(tmp_path)
    replace(document, provenance=Provenance(command="sage b")).write(tmp_path)
    assert pen.drawn == 1
    after = states(tmp_path)
    assert {name for name in after if after[name] != before[name]} == {"passk.json"}
    assert json.loads((tmp_path / "passk.json").read_text())["provenance"]["command"] == "sage b"


@pytest.mark.parametrize(
    "change",
    [
        {"data": {"k": [1], "curves": []}},
        {"notes": ()},
        {"title": "pass@k"},
        {"sheets": {"passk": replace(TABLE, rows=(Row((1, Estimate(0.2500000001))),))}},
    ],
)
def test_other_content_is_drawn_anew(change, document, pen, tmp_path):
    document.write(tmp_path)
    other = replace(document, **change)
    assert other.content != document.content
    other.write(tmp_path)
    assert pen.drawn == 2


def test_so_is_another_look(document, pen, tmp_path, monkeypatch):
    document.write(tmp_path)
    monkeypatch.setattr(module, "FIGURES_VERSION", module.FIGURES_VERSION + 1)
    replace(document).write(tmp_path)
    assert pen.drawn == 2


@pytest.mark.parametrize("name", ["passk.md", "passk-more.csv", "curve.v1.svg", "passk.json"])
def test_a_file_that_is_missing_comes_back(name, document, pen, tmp_path):
    document.write(tmp_path)
    (tmp_path / name).unlink()
    report = document.write(tmp_path)
    assert all(path.is_file() for path in report.files)
    assert pen.drawn == (1 if name in ("passk.md", "passk-more.csv") else 2)


@pytest.mark.parametrize("torn", ["", '{"content": ', "[]"])
def test_a_torn_json_vouches_for_nothing(torn, document, pen, tmp_path):
    document.write(tmp_path)
    (tmp_path / "passk.json").write_text(torn)
    document.write(tmp_path)
    assert json.loads((tmp_path / "passk.json").read_text())["content"] == document.content
    assert pen.drawn == 2


def test_a_writer_that_dies_leaves_no_json_that_vouches_for_old_pictures(document, pen, tmp_path):
    document.write(tmp_path)

    def dies(stem):
        raise OSError("disk full")

    other = replace(document, title="other", figures=(Figure("curve.v1", dies),))
    with pytest.raises(OSError, match="disk full"):
        other.write(tmp_path)
    assert not (tmp_path / "passk.json").exists()
    document.write(tmp_path)
    assert pen.drawn == 2


@pytest.mark.parametrize("key", ["name", "title", "provenance", "content"])
def test_data_can_not_take_the_documents_own_keys(key):
    with pytest.raises(ValueError, match=key):
        Document("x", "x", {key: 1})


@pytest.mark.slow
def test_documents_are_built_without_what_only_figures_need():
    program = (
        "import sys\n"
        "from sage_cli.reports import over_temperatures, passk, terminal\n"
        "from sage_cli.reports.comparison import report as comparison\n"
        "from sage_cli.trials.sweep import report\n"
        "print([m for m in ('matplotlib', 'torch', 'scipy', 'jinja2') if m in sys.modules])"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == "[]"


def test_a_generator_with_settings_leaves_no_sign_in_a_folders_name(tmp_path):
    benchmark = "arithmetic:low=2:held_out=6"
    folder = report_folder(tmp_path, f"passk-{benchmark}-01234567")
    assert folder == tmp_path / "reports" / "passk-arithmetic-low-2-held_out-6-01234567"
    sides = SimpleNamespace(a=Side("a", ()), b=Side("b", ()))
    config = load(sets=[f"run.root={tmp_path}"]).config
    compared = compare._folder(config, {benchmark: cast(Any, sides)}, (1,))
    assert compared.name.startswith("compare-arithmetic-low-2-held_out-6-")
