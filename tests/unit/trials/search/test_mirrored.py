"""A sweep's own run of W&B, offline: read back from the file that `wandb sync` would upload."""

from __future__ import annotations

from pathlib import Path

import pytest
import wandb
from offline_wandb import read_offline, table_in
from sweep_cells import GRID, PASS_1
from sweep_folder import TRIALS

from sage_cli.reports.document import Report
from sage_cli.reports.provenance import Provenance
from sage_cli.reports.sweep_report import sweep_document
from sage_cli.reports.sweep_result import SweepTrial
from sage_cli.settings.sections.records import TrackingSection
from sage_cli.trials.search.outcome import mirror_report

FACTS = {"sampler": "grid", "objectives": ["pass@1"], "space": [{"name": "tau"}]}
OFFLINE = TrackingSection()


def report(root: Path, trials=TRIALS) -> Report:
    base = SweepTrial({}, "done", {"pass@1": 0.3}, runs=("sft-1",))
    document = sweep_document(GRID, (PASS_1,), trials, Provenance(), base=base)
    return document.write(root / "sweeps" / "tau-rho-1")


def files(folder: Path, name: str) -> Path:
    (found,) = (folder / "wandb").glob(f"offline-run-*/files/{name}")
    return found


def test_it_has_the_table_the_pictures_what_was_searched_and_the_best_trial(tmp_path):
    made = report(tmp_path)
    mirror_report(made, FACTS, OFFLINE)
    offline = read_offline(made.folder)
    assert (offline.group, offline.job) == ("tau-rho-1", "sweep")
    assert {key: offline.config[key] for key in FACTS} == FACTS
    row = offline.history[0]
    base, first, failed, *_ = table_in(files(made.folder, row["trials/path"]))
    assert (base["trial"], base["state"], base["pass@1"]) == ("base", "base", 0.3)
    assert (first["tau"], first["rho"], first["state"]) == (0.8, 0.1, "done")
    assert first["pass@1 low"] < first["pass@1"] < first["pass@1 high"]
    assert first["run"] == "rl-1-0"
    assert (failed["state"], failed["run"]) == ("failed", "failed: out of memory")
    drawn = files(made.folder, row["heatmap/path"])
    assert drawn.read_bytes() == (made.folder / "heatmap.png").read_bytes()
    best = made.document.data["rankings"]["pass@1"].best
    assert offline.summary["best/pass@1/value"] == TRIALS[best].values["pass@1"]
    assert offline.summary["best/pass@1/guide.tau"] == 1.2
    assert offline.summary["best/pass@1/runs"] == TRIALS[best].runs[0]
    assert (offline.summary["trials/done"], offline.summary["trials/failed"]) == (3, 1)


def test_at_the_next_end_of_the_driver_it_is_made_anew(tmp_path):
    mirror_report(report(tmp_path, TRIALS[:2]), FACTS, OFFLINE)
    made = report(tmp_path)
    mirror_report(made, FACTS, OFFLINE)
    assert read_offline(made.folder).summary["trials/done"] == 3  # the one run below the folder


def test_a_sweep_in_which_nothing_worked_is_shown_too(tmp_path):
    made = report(tmp_path, TRIALS[1:2])
    mirror_report(made, FACTS, OFFLINE)
    summary = read_offline(made.folder).summary
    assert summary["trials/failed"] == 1
    assert not any(key.startswith("best/") for key in summary)


def test_off_starts_nothing(tmp_path, monkeypatch):
    monkeypatch.setattr(wandb, "init", lambda **_: pytest.fail("W&B was started"))
    made = report(tmp_path)
    mirror_report(made, FACTS, TrackingSection(wandb="off"))
    assert not (made.folder / "wandb").exists()


def test_whatever_wandb_does_the_sweep_goes_on(tmp_path, monkeypatch, caplog):
    def init(**_):
        raise wandb.errors.CommError("no service")

    monkeypatch.setattr(wandb, "init", init)
    mirror_report(report(tmp_path), FACTS, OFFLINE)
    assert (
        "W&B does not show the sweep tau-rho-1: no service; sweep.json is complete" in caplog.text
    )
