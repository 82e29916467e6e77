"""Sweeps whose driver, tasks and trainings are killed: every trial once, or named as failed."""

import json
import os
import signal
from collections import Counter

import pytest
from sweep_lab import SweepLab, kill

pytestmark = pytest.mark.slow
DIVERGE = (
    "--set",
    "rl.stop_when_stuck=true",
    "--set",
    "rl.preflight=off",
    "--set",
    "rl.learning_rate=0.01",
    "--guide",
    "branch",
)
"""With it a beta of 1e38 has an infinite gradient as soon as the policy has moved.

The preflight would stop all of them earlier: so short an SFT teaches no readable answer.
"""


@pytest.fixture(scope="module")
def lab(tmp_path_factory, warm):
    return SweepLab(tmp_path_factory.mktemp("sweeps"), warm)


@pytest.fixture(scope="module")
def survived(lab):
    """2 x 2 trials of which one dies of SIGKILL once; the driver is killed on the way."""
    space = lab.space([0, 1], [0.8, 1.0])
    words = ("--space", space, "--workers", "2")
    driver = lab.start(*words)
    lab.wait_until(lambda: any(run["status"] == "finished" for run in lab.runs))
    kill(driver.pid)
    driver.communicate()
    lab.wait_until(lambda: not lab.tasks(), seconds=40)
    return lab.run(*words)


def test_every_trial_is_there_once(lab, survived):
    trials = survived["trials"]
    assert Counter(trial["state"] for trial in trials) == {"done": 4}
    assert len({trial["runs"][0] for trial in trials}) == 4
    assert (lab.folder / "died-1-0.8").read_text() == "died\n"  # and was tried again
    assert all(run["status"] == "finished" for run in lab.runs)
    assert len(lab.runs) == 4
    assert not lab.tasks()
    folder = lab.folder / survived["folder"]
    assert json.loads((folder / "state.json").read_text())["trials"]["left"] == 0
    assert (folder / "config.json").is_file()


def test_a_grid_is_extended_by_its_new_trials_alone(lab, survived):
    before = lab.begun()
    space = lab.space([0, 1, 2], [0.8, 1.0])
    again = lab.run("--space", space, "--workers", "2", "--set", "sweep.retries=0")
    assert Counter(trial["state"] for trial in again["trials"]) == {"done": 5, "failed": 1}
    begun = lab.begun() - before
    (failed,) = (trial for trial in again["trials"] if trial["state"] == "failed")
    assert sorted(begun.values()) == [1, 1]  # the two new trials, once each
    assert failed["settings"] == {"guide.tau": 2, "guide.rho": 0.8}
    assert failed["failure"]["kind"] == "killed"


def test_another_objective_runs_nothing_again(lab, survived):
    before = lab.begun()
    words = ("--space", lab.space([0, 1], [0.8, 1.0]), "--objective", "0.5*pass@1+0.5*pass@2")
    again = lab.run(*words)
    assert again["objectives"] == ["0.5*pass@1+0.5*pass@2"]
    assert Counter(trial["state"] for trial in again["trials"]) == {"done": 4}
    assert lab.begun() == before


def test_a_second_driver_is_refused_and_told_who(lab, survived):
    words = ("--space", lab.space([0.5, 0.6, 0.7, 0.9], [0.8]), "--workers", "1")
    driver = lab.start(*words)
    lab.wait_until(lambda: lab.tasks())
    assert f"process {driver.pid} on" in lab.refused(*words)
    os.kill(driver.pid, signal.SIGTERM)
    driver.communicate(timeout=60)
    assert driver.returncode == 143
    assert not lab.tasks()  # its task was ended with it
    finished = lab.run(*words)
    assert [trial["state"] for trial in finished["trials"]] == ["done"] * 4


def test_two_drivers_that_need_one_base_wait_for_each_other(tmp_path, warm):
    """They also share a trial, which either of them trains."""
    lab = SweepLab(tmp_path, warm, ["--set", "sft.steps=900"])  # seconds, in which both begin
    grids = {"one": lab.space([0], [0.8]), "two": lab.space([0, 0.5], [0.8])}
    drivers = [
        lab.start("--study", name, "--space", space, "--workers", "1", "--json")
        for name, space in grids.items()
    ]
    ends = [driver.communicate(timeout=600) for driver in drivers]
    for driver, (out, said) in zip(drivers, ends, strict=True):
        assert driver.returncode == 0, said[-4000:]
        assert {trial["state"] for trial in json.loads(out)["trials"]} == {"done"}
    said = " ".join(" ".join(said.split()) for _, said in ends)
    assert "waiting: initial policy" in said, said
    assert [run["status"] for run in lab.runs] == ["finished"] * 2


def test_a_trial_that_diverges_is_told_and_does_not_count(tmp_path, warm):
    """Of five betas two are absurd; the same command trains neither of them again."""
    lab = SweepLab(tmp_path, warm, DIVERGE)
    space = "beta=0.05|0.06|0.07|1e38|2e38"
    words = ("--space", space, "--sampler", "qmc", "--trials", "3", "--workers", "1")
    found = lab.run(*words)
    diverged = [one for one in found["trials"] if one["state"] == "failed"]
    assert {one["failure"]["kind"] for one in diverged} <= {"diverged"}
    assert Counter(one["state"] for one in found["trials"])["done"] == 3
    assert diverged, found["trials"]
    before = lab.begun()
    assert Counter(one["state"] for one in lab.run(*words)["trials"]) == Counter(
        one["state"] for one in found["trials"]
    )
    assert lab.begun() == before


def test_a_space_in_which_all_diverge_is_named(tmp_path, warm):
    lab = SweepLab(tmp_path, warm, DIVERGE)
    said = lab.refused("--space", "beta=1e38:2e38", "--trials", "2", "--workers", "1")
    assert "2 trials diverged, or ran out of memory because of their settings" in said
    assert "narrow the space" in said
