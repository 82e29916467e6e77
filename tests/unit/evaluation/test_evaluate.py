"""What an evaluation records with the runs that it measured."""

import numpy as np
import pytest
import wandb
from offline_wandb import read_offline

from sage_cli.config.load import changed, load
from sage_cli.evaluation.evaluate import (
    Evaluated,
    Evaluation,
    evaluation_folder,
    record_evaluations,
)
from sage_cli.metrics import Counts
from sage_cli.metrics.counts import SeedCounts
from sage_cli.models.policy import Policy
from sage_cli.progress import Silent
from sage_cli.store.evaluations import evaluation_figures
from sage_cli.store.locks import writer
from sage_cli.store.mirrors import mirrors_of
from sage_cli.store.run import Runs


@pytest.fixture
def trained(tmp_path):
    """A finished run of two steps with its W&B directory, and its configuration."""
    run = Runs(tmp_path / "runs").at("rl", "dapo-branch", "1" * 8)
    settings = {
        "run.root": str(tmp_path / "runs"),
        "evaluation.samples": 4,
        "evaluation.k": "1,4",
        "evaluation.benchmark": "amc23",
        "tracking.group": "g",
    }
    config = changed(load().config, settings)
    with run.recording(config.model_dump(mode="json"), kind="rl"):
        (mirror,) = mirrors_of(config.tracking, run)
        for record in ({"step": 1, "loss": 0.1}, {"step": 2, "loss": 0.2}):
            run.metrics.append(record)
            mirror.log(record)
        mirror.close()
    return run, config


def measured(policy, *c_by_seed, benchmark="amc23"):
    """Two problems of four samples each, c of which are right."""
    return {
        (benchmark, policy.label): [
            SeedCounts(
                policy.label,
                benchmark,
                seed,
                Counts(("a", "b"), np.array([4, 4]), np.array(c)),
                {},
                0,
                "set",
            )
            for seed, c in enumerate(c_by_seed)
        ]
    }


def keep(config, policy, found, benchmarks=()):
    record_evaluations([policy], benchmarks, found, config)


EXPECTED = {
    # pass@1: means over problems (2 + 0)/8 and (2 + 4)/8; pass@2 of c = 2: 1 - 1/6
    "eval/amc23/pass@1": 0.5,
    "eval/amc23/pass@2": pytest.approx((5 / 6 + 0 + 5 / 6 + 1) / 4),
    "eval/amc23/pass@4": 0.75,
    "eval/amc23/problems": 2,
    "eval/amc23/samples": 4,
    "eval/amc23/seeds": 2,
    "eval/amc23/temperature": 0.3,
    "eval/amc23/grading": "strict",
}


def test_figures_are_in_the_runs_folder_and_in_its_wandb_summary(trained):
    run, config = trained
    config = changed(config, {"sampling.temperature": 0.3, "tracking.group": "another's"})
    policy = Policy(str(run.model), run)
    keep(config, policy, measured(policy, [2, 0], [2, 4]))
    assert evaluation_figures(run) == EXPECTED
    offline = read_offline(run.folder)
    assert {key: offline.summary[key] for key in EXPECTED} == EXPECTED
    assert offline.of("loss") == [(1, 0.1), (2, 0.2)]
    assert offline.group == "g"  # the run's own


def test_every_measurement_of_runs_is_kept(trained, monkeypatch):
    run, config = trained
    policy = Policy(str(run.model), run)
    found = measured(policy, [1, 1])
    monkeypatch.setattr("sage_cli.evaluation.evaluate.measure", lambda *_: found)
    monkeypatch.setattr("sage_cli.evaluation.evaluate.PolicySamples.from_config", lambda *_: None)
    monkeypatch.setattr("sage_cli.evaluation.evaluate.load_benchmarks", lambda *_: [])
    Evaluation(config).measure([policy], Silent())
    assert evaluation_figures(run)["eval/amc23/pass@1"] == 0.25


def test_the_same_figures_leave_the_mirrors_alone(trained, monkeypatch):
    run, config = trained
    policy = Policy(str(run.model), run)
    keep(config, policy, measured(policy, [2, 0]))
    monkeypatch.setattr(wandb, "init", lambda **_: pytest.fail("W&B was started"))
    keep(config, policy, measured(policy, [2, 0]))


def test_checkpoints_and_models_that_are_no_runs_are_passed_over(trained, monkeypatch, tmp_path):
    run, config = trained
    monkeypatch.setattr(wandb, "init", lambda **_: pytest.fail("W&B was started"))
    for policy in (Policy(str(run.model), run, checkpoint=1), Policy(str(tmp_path / "theirs"))):
        keep(config, policy, measured(policy, [2, 0]))
    assert evaluation_figures(run) == {}
    assert not (tmp_path / "theirs").exists()


def test_a_failing_mirror_stops_no_evaluation(trained, monkeypatch, caplog):
    run, config = trained
    policy = Policy(str(run.model), run)

    def init(**_):
        raise wandb.errors.CommError("no service")

    monkeypatch.setattr(wandb, "init", init)
    keep(config, policy, measured(policy, [2, 0]))
    assert evaluation_figures(run)["eval/amc23/pass@1"] == 0.25
    assert "W&B stopped mirroring" in caplog.text


def test_a_folder_that_cannot_be_written_stops_no_evaluation(trained, caplog, monkeypatch):
    run, config = trained
    policy = Policy(str(run.model), run)
    with writer(run.folder):  # by another evaluation
        keep(config, policy, measured(policy, [2, 0]))
    assert "doesn't keep what was measured" in caplog.text
    caplog.clear()

    def disk_full(*_):
        raise OSError("disk full")

    monkeypatch.setattr("sage_cli.evaluation.evaluate.record_evaluation", disk_full)
    keep(config, policy, measured(policy, [2, 0]))
    assert caplog.messages == [f"{run.id} doesn't keep what was measured: disk full"]


def test_two_runs_of_equal_weights_keep_reports_of_their_own(tmp_path):
    """Their samples are the same set, which is stored once."""

    def folder(label, sample_set="a" * 16):
        counts = Counts(("p1",), np.array([4]), np.array([1]))
        seed = SeedCounts(label, "arithmetic", 0, counts, {"right": 1, "wrong": 3}, 0, sample_set)
        evaluation = Evaluation(load(sets=[f"run.root={tmp_path}"]).config)
        measured = {("arithmetic", label): (seed,)}
        return evaluation_folder("passk", Evaluated(evaluation, (), measured))

    assert folder("rl-a") == folder("rl-a")
    assert len({folder("rl-a"), folder("rl-b"), folder("rl-a", "b" * 16)}) == 3
