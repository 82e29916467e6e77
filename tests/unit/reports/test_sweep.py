from __future__ import annotations

import json
from pathlib import Path

from sage_cli.reports.provenance import Provenance
from sage_cli.reports.render import to_csv
from sage_cli.reports.sweep import SweepCell, sweep_document

SPACE = {"tau": (0.8, 1.2), "rho": (0.1, 0.3)}
KEYS = ("guide.tau", "guide.rho")


def cell(tau: float, rho: float, scores: tuple[float, ...] | None, said: str) -> SweepCell:
    found = (said, None) if scores else (None, said)
    return SweepCell(dict(zip(KEYS, (tau, rho), strict=True)), scores, *found)


CELLS = [
    cell(0.8, 0.1, (0.4, 0.9), "rl-1"),
    cell(0.8, 0.3, None, "TrainingError: NaN"),
    cell(1.2, 0.1, (0.45, 0.8), "rl-2"),
]


def test_a_cell_has_its_scores_or_its_reason() -> None:
    document = sweep_document(SPACE, ("pass@1", "pass@64"), CELLS, Provenance())
    assert to_csv(document.sheets["sweep"]).splitlines() == [
        "tau,rho,pass@1,pass@64,run",
        "0.8,0.1,0.4,0.9,rl-1",
        "0.8,0.3,,,TrainingError: NaN",
        "1.2,0.1,0.45,0.8,rl-2",
    ]
    assert document.data["space"] == {"tau": [0.8, 1.2], "rho": [0.1, 0.3]}
    first, second, _ = document.data["cells"]
    assert first == {
        "guide.tau": 0.8, "guide.rho": 0.1, "pass@1": 0.4, "pass@64": 0.9, "run": "rl-1",
        "reason": None,
    }  # fmt: skip
    assert "pass@1" not in second
    assert second["reason"] == "TrainingError: NaN"


def test_two_settings_make_heat_maps(tmp_path: Path) -> None:
    report = sweep_document(SPACE, ("pass@1", "pass@64"), CELLS, Provenance()).write(tmp_path)
    assert {path.name for path in report.files} == {
        "sweep.json", "sweep.md", "sweep.csv", "sweep.tex", "heatmap.png", "heatmap.svg",
    }  # fmt: skip
    drawn = (tmp_path / "heatmap.svg").read_text()
    for words, times in (("τ", 1), ("0.450", 1), ("0.900", 1), ("failed", 2), ("not run", 2)):
        assert drawn.count(f"<!-- {words} -->") == times, words
    assert json.loads((tmp_path / "sweep.json").read_text())["objectives"] == ["pass@1", "pass@64"]


def test_settings_may_be_words_and_one_alone_has_no_map() -> None:
    cells = [SweepCell({"rl.algo": "grpo"}, (0.5,), "rl-1")]
    document = sweep_document({"algo": ("grpo", "dapo")}, ("pass@1",), cells, Provenance())
    assert [str(c) for c in document.tables[0].rows[0].cells] == ["grpo", "0.500", "rl-1"]
    assert document.figures == ()
