"""`sage passk` on files: curves of anybody's counts."""

import json

import pytest

from sage_cli.cli.named_models import passk_of_files
from sage_cli.config.load import load
from sage_cli.evaluation.counted_files import read_counted_files


def test_k_chooses_what_the_table_shows_and_the_curve_has_every_k(tmp_path):
    # 32 samples, 4 right: pass@2 = 1 - C(28,2) / C(32,2) = 1 - 378/496, far above the straight
    # line from k = 1 to 32.
    rows = [{"problem": id_, "n": 32, "c": 4} for id_ in ("a", "b", "c")]
    (tmp_path / "mine.json").write_text(json.dumps(rows))
    evaluation = load().config.evaluation
    files = read_counted_files([str(tmp_path / "mine.json")])
    report = passk_of_files(files, {}, "1,32", evaluation, tmp_path / "runs")
    written = json.loads((report.folder / "passk.json").read_text())
    assert written["k"] == list(range(1, 33))
    assert written["curves"][0]["pass@k"][1] == pytest.approx(1 - 378 / 496, abs=1e-12)
    shown = (report.folder / "passk.md").read_text()
    assert "| 1 |" in shown
    assert "| 2 |" not in shown
    assert "| 32 |" in shown
