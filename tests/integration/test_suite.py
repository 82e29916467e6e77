"""Suites of real, small trainings: run again, with a method that fails, and tuned."""

import json
from types import SimpleNamespace

import pytest
from sweep_lab import SuiteLab, measured

BROKEN = "broken: {of: grpo/faulty, settings: {guide.tau: 2, guide.rho: 0.8}}"
"""A guide that kills its training in the first step."""


def begun_tasks(lab):
    """How often a training was begun or taken up."""
    logs = lab.folder.glob("runs/suites/mine-*/tasks/*.log")
    return sum(log.read_text().count("loading libraries") for log in logs)


@pytest.fixture(scope="module")
def typed(warm):
    """Commands that begin warm themselves: none of them is killed here."""
    return SimpleNamespace(driver=[warm.sage])


@pytest.fixture(scope="module")
def lab(tmp_path_factory, typed):
    return SuiteLab(tmp_path_factory.mktemp("suite"), typed)


@pytest.fixture(scope="module")
def undisturbed(lab):
    lab.write()
    return lab.run("run")


def test_the_same_command_again_does_nothing_and_finds_the_same(lab, undisturbed):
    begun = begun_tasks(lab)
    again = lab.run("run")
    assert again["content"] == undisturbed["content"]
    assert begun_tasks(lab) == begun
    assert (lab.folder / again["page"]).is_file()
    plan = lab.run("plan")
    assert {task["state"] for task in plan["tasks"]} == {"done"}
    assert plan["left"]["tokens"] == 0


def test_a_method_that_fails_is_a_row_with_its_reason(lab, undisturbed):
    lab.write(BROKEN)
    answer = lab.run("run")
    *others, broken = measured(answer)["rows"]
    assert others == measured(undisturbed)["rows"]
    assert broken["model"].startswith("broken (killed: SIGKILL ended it from outside")
    (pass_at_1,) = (value for name, value in broken.items() if name.endswith(" pass@1"))
    assert pass_at_1 is None
    # and so says a report that runs nothing
    assert measured(lab.run("report"))["rows"] == measured(answer)["rows"]


TUNED = """
title: "A tuned method"
methods:
  base: base
  branch: {of: grpo/branch, space: "learning_rate=1e-4:1e-2:log,tau=0.2:0.8"}
k: 1,4
seeds: 1
tune: {space: "learning_rate=1e-4:1e-2:log", trials: 2, steps: 2}
"""


@pytest.mark.timeout(3600)
def test_a_tuned_method_is_searched_and_then_trained_at_its_point(tmp_path, typed):
    tuned = SuiteLab(tmp_path, typed)
    (tmp_path / "mine.yaml").write_text(TUNED)
    (chapter,) = tuned.run("run")["chapters"]
    tried = chapter["sections"]["tuning"]["trials"]
    assert [row["method"] for row in tried] == ["initial policy", "branch, chosen", "branch"]
    chosen = {row["settings"].split(",")[0] for row in tried if "chosen" in row["method"]}
    configs = [json.loads(file.read_text()) for file in tmp_path.glob("runs/rl-*/config.json")]
    assert len(configs) == 3  # two trials and a training
    trained = [config["rl"] for config in configs if config["rl"]["seed"] < 1000]
    assert {f"learning_rate {rl['learning_rate']:g}" for rl in trained} == chosen
    begun = begun_tasks(tuned)
    assert tuned.run("report")["chapters"][0]["sections"]["tuning"]["trials"] == tried
    assert {task["state"] for task in tuned.run("plan")["tasks"]} == {"done"}
    assert begun_tasks(tuned) == begun
