"""A trial's run in W&B says which trial it is, and what its objectives came to."""

from __future__ import annotations

import pytest
from mirrored_run import train
from offline_wandb import read_offline

from sage_cli.settings.sections.records import TrackingSection
from sage_cli.store.mirrors import mirrors_of, sweep_figures
from sage_cli.store.run import Run, Runs, evaluation_figures, record_evaluation
from sage_cli.store.run_facts import Entry, SweepRuns

OFFLINE = TrackingSection()


@pytest.fixture
def trial(tmp_path) -> Run:
    """A trial's run, which its sweep names, measured on one of two benchmarks."""
    run = Runs(tmp_path).at("rl", "dapo-branch", "1" * 8)
    config = {
        "tracking": {"project": "sage", "group": "tau-rho-1"},
        "evaluation": {"benchmark": "amc23, shared/dev.jsonl"},
        "sweep": {"objective": ["pass@1", "0.5*pass@1+0.5*pass@4"]},
    }
    with run.recording(config, kind="rl"):
        pass
    runs = SweepRuns(tmp_path / "sweeps" / "tau-rho-1")
    runs.append(Entry({"guide.tau": 0.1}, 0, "another"))
    runs.append(Entry({"guide.tau": 0.465, "rl.lr": 1e-5}, 0, run.id))
    record_evaluation(run, "amc23", {"pass@1": 0.25, "pass@4": 0.5})
    return run


def test_settings_are_known_at_once_and_objectives_when_all_benchmarks_are_measured(trial):
    settings = {"sweep/guide.tau": 0.465, "sweep/rl.lr": 1e-5}
    assert sweep_figures(trial, evaluation_figures(trial)) == settings
    record_evaluation(trial, "dev", {"pass@1": 0.75, "pass@4": 1.0})
    # pass@1: (.25 + .75) / 2; the sum: (.5 * .25 + .5 * .5 + .5 * .75 + .5 * 1) / 2 = 1.25 / 2
    assert sweep_figures(trial, evaluation_figures(trial)) == {
        **settings, "sweep/pass@1": 0.5, "sweep/0.5*pass@1+0.5*pass@4": 0.625,
    }  # fmt: skip


def test_they_are_in_the_summary_of_the_run(trial):
    train(trial, (1,), OFFLINE)
    record_evaluation(trial, "dev", {"pass@1": 0.75, "pass@4": 1.0})
    for mirror in mirrors_of(OFFLINE, trial):
        mirror.show_evaluations()
    offline = read_offline(trial.folder)
    assert offline.group == "tau-rho-1"
    assert offline.summary["sweep/guide.tau"] == 0.465
    assert offline.summary["sweep/pass@1"] == 0.5
    assert offline.summary["eval/dev/pass@4"] == 1.0


def test_a_run_that_is_no_trial_has_none(trial, tmp_path):
    (tmp_path / "sweeps" / "tau-rho-1" / "runs.jsonl").unlink()
    assert sweep_figures(trial, evaluation_figures(trial)) == {}
