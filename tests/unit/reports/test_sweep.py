from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np

from sage_cli.metrics import Counts, pass_at_k
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


def measured(tau: float, rho: float, gain: float) -> SweepCell:
    generator = np.random.default_rng(int(100 * tau + 10 * rho))
    logit_P = np.random.default_rng(0).normal(-0.5, 1.5, 40) + gain
    c_P = generator.binomial(64, 1 / (1 + np.exp(-logit_P)))
    counts = Counts(tuple(f"p{i}" for i in range(40)), np.full(40, 64), c_P)
    scores = (float(pass_at_k(counts.n_P, counts.c_P, 1).mean()),)
    return replace(cell(tau, rho, scores, f"rl-{tau}-{rho}"), counts=counts)


def test_cells_that_cannot_be_told_apart_from_the_best_are_named_and_look_alike(
    tmp_path: Path,
) -> None:
    failed = cell(0.8, 0.3, None, "TrainingError: NaN")
    cells = [measured(0.8, 0.1, -1.5), failed, measured(1.2, 0.1, 0.0), measured(1.2, 0.3, 0.01)]
    document = sweep_document(SPACE, ("pass@1",), cells, Provenance())
    ranking = document.data["rankings"]["pass@1"]
    assert ranking["best"] in (2, 3)  # places in `cells`, the failed one counted
    assert ranking["alike"] == (2, 3)
    (note,) = document.tables[0].notes
    assert note.startswith(f"pass@1: best is rl-1.2-{(0.1, 0.3)[ranking['best'] - 2]}, and 1 of 2 ")
    assert "95 %, all pairs together; standard error of a difference: 0.0" in note
    document.write(tmp_path)
    drawn = (tmp_path / "heatmap.svg").read_text()
    assert drawn.count("<!-- can't be told apart from the best -->") == 1
    assert json.loads((tmp_path / "sweep.json").read_text())["rankings"]["pass@1"]["alike"] == [
        2,
        3,
    ]


def test_where_some_counts_are_gone_nothing_is_said_of_the_noise(tmp_path: Path) -> None:
    cells = [measured(0.8, 0.1, -1.5), replace(measured(1.2, 0.1, 0.0), counts=None)]
    document = sweep_document(SPACE, ("pass@1",), cells, Provenance())
    assert document.data["rankings"] == {}
    document.write(tmp_path)
    assert "<!-- noise unknown -->" in (tmp_path / "heatmap.svg").read_text()
