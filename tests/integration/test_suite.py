"""Suites of real, small trainings: killed and started again, and with a method that fails."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import faulty_guide
import pytest
from sweep_lab import SMALL
from warm import Warm

SUITE = """
title: "A small suite"
methods:
  base: base
  grpo: grpo
  {more}
k: 1,4
seeds: 1
claims: grpo > base at pass@4
"""
BROKEN = "broken: {of: grpo/faulty, settings: {guide.tau: 2, guide.rho: 0.8}}"
"""A guide that kills its training in the first step."""


@dataclass
class SuiteLab:
    """Types `sage suite run` in a folder of its own; its tasks begin warm."""

    folder: Path
    warm: Warm

    def __post_init__(self) -> None:
        faulty_guide.install(self.folder / "packages")
        (self.folder / "small.yaml").write_text(SMALL)

    def write(self, more: str = "") -> None:
        (self.folder / "mine.yaml").write_text(SUITE.format(more=more))

    def start(self, verb: str = "run") -> subprocess.Popen[str]:
        words = ["suite", verb, "mine.yaml", "--preset", "tiny", "--preset", "small.yaml", "--json"]
        sets = ["--set", "evaluation.samples=4", "--set", "evaluation.bootstrap=100"]
        paths = [str(self.folder / "packages"), os.environ.get("PYTHONPATH", "")]
        environment = {
            **os.environ, "PYTHONPATH": os.pathsep.join(filter(None, paths)),
            "FAULTY": str(self.folder), "HF_HUB_OFFLINE": "1",
        }  # fmt: skip
        return subprocess.Popen(
            [*self.warm.driver, *words, *sets], cwd=self.folder, env=environment,
            text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE, start_new_session=True,
        )  # fmt: skip

    def done(self, verb: str = "run") -> dict[str, Any]:
        """A command to its end."""
        process = self.start(verb)
        out, errors = process.communicate(timeout=3000)
        assert process.returncode == 0, errors[-4000:]
        answer: dict[str, Any] = json.loads(out)
        return answer

    def kill_driver_when(self, holds: Callable[[], bool]) -> None:
        """Start, and SIGKILL the driver alone as of `holds`; its tasks must end by themselves."""
        process = self.start()
        self.wait_until(holds, process)
        process.send_signal(signal.SIGKILL)
        process.communicate()

    def wait_until(self, holds: Callable[[], bool], driver: subprocess.Popen[str]) -> None:
        """Until it holds while the driver lives."""
        deadline = time.monotonic() + 1800
        while not holds():
            assert driver.poll() is None, driver.communicate()[1][-4000:]
            assert time.monotonic() < deadline, "waited too long"
            time.sleep(0.01)

    def training(self) -> int | None:
        """The process that trains by RL, as it says itself while it lives; None where none does."""
        for held in self.folder.glob("runs/rl-*/.lock.lease"):
            with suppress(OSError, ValueError):
                pid = int(json.loads(held.read_text())["pid"])
                os.kill(pid, 0)
                return pid
        return None

    def begun(self) -> int:
        """How often a training was begun or taken up."""
        logs = self.folder.glob("runs/suites/mine-*/tasks/*.log")
        return sum(log.read_text().count("loading libraries") for log in logs)


def measured(answer: dict[str, Any]) -> Any:
    (chapter,) = answer["chapters"]
    return chapter["sections"]["measured"]


@pytest.fixture(scope="module")
def lab(tmp_path_factory: pytest.TempPathFactory, warm: Warm) -> SuiteLab:
    return SuiteLab(tmp_path_factory.mktemp("suite"), warm)


@pytest.fixture(scope="module")
def undisturbed(lab: SuiteLab) -> dict[str, Any]:
    lab.write()
    return lab.done()


@pytest.mark.timeout(3600)  # a dozen processes, each of which loads torch
def test_kills_of_driver_task_and_group_and_the_same_result(
    lab: SuiteLab, undisturbed: dict[str, Any], tmp_path: Path
) -> None:
    killed = SuiteLab(tmp_path, lab.warm)
    killed.write()
    runs = killed.folder / "runs"
    killed.kill_driver_when(lambda: any(runs.glob("sft-*/metrics.jsonl")))
    driver = killed.start()
    killed.wait_until(lambda: any(runs.glob("rl-*/metrics.jsonl")), driver)
    first = killed.training()
    assert first is not None
    # the task alone: the driver has it done once more
    os.kill(first, signal.SIGKILL)
    killed.wait_until(lambda: killed.training() not in (None, first), driver)
    second = killed.training()
    assert second is not None
    # the task with all that holds it: the driver gives it up, and reports
    os.killpg(os.getpgid(second), signal.SIGKILL)
    out, errors = driver.communicate(timeout=3000)
    assert driver.returncode == 0, errors[-4000:]
    assert measured(json.loads(out))["rows"][1]["model"].startswith("grpo (killed")
    killed.kill_driver_when(lambda: killed.training() is not None)
    answer = killed.done()
    assert measured(answer)["rows"] == measured(undisturbed)["rows"]
    keys = ("sample_set", "statuses", "problems")
    one, other = (
        [{key: each[key] for key in keys} for each in measured(found)["measurements"]]
        for found in (answer, undisturbed)
    )
    assert one == other
    claims, undisturbed_claims = (
        found["chapters"][0]["sections"]["claims"] for found in (answer, undisturbed)
    )
    assert claims == undisturbed_claims


def test_the_same_command_again_does_nothing_and_finds_the_same(
    lab: SuiteLab, undisturbed: dict[str, Any]
) -> None:
    lab.write()
    begun = lab.begun()
    again = lab.done()
    assert again["content"] == undisturbed["content"]
    assert lab.begun() == begun
    assert Path(lab.folder / again["page"]).is_file()
    plan = lab.done("plan")
    assert {task["state"] for task in plan["tasks"]} == {"done"}
    assert plan["left"]["tokens"] == 0


def test_a_method_that_fails_is_a_row_with_its_reason(
    lab: SuiteLab, undisturbed: dict[str, Any]
) -> None:
    lab.write(BROKEN)
    answer = lab.done()
    *others, broken = measured(answer)["rows"]
    assert others == measured(undisturbed)["rows"]
    assert broken["model"].startswith("broken (killed: SIGKILL ended it from outside")
    (pass_at_1,) = (value for name, value in broken.items() if name.endswith(" pass@1"))
    assert pass_at_1 is None
    # and so says a report that runs nothing
    assert measured(lab.done("report"))["rows"] == measured(answer)["rows"]


TUNED = """
title: "Two tuned methods"
methods:
  base: base
  grpo: grpo
  branch: {of: grpo/branch, space: "learning_rate=1e-4:1e-2:log,tau=0.2:0.8"}
k: 1,4
seeds: 1
tune: {space: "learning_rate=1e-4:1e-2:log", trials: 2, steps: 2}
"""


@pytest.mark.timeout(3600)
def test_tuned_methods_are_searched_and_then_trained_at_their_points(
    tmp_path: Path, warm: Warm
) -> None:
    tuned = SuiteLab(tmp_path, warm)
    (tmp_path / "mine.yaml").write_text(TUNED)
    (chapter,) = tuned.done()["chapters"]
    tried = chapter["sections"]["tuning"]["trials"]
    assert [row["method"] for row in tried] == [
        "initial policy", "grpo, chosen", "grpo", "branch, chosen", "branch"
    ]  # fmt: skip
    chosen = {row["settings"].split(",")[0] for row in tried if "chosen" in row["method"]}
    configs = [json.loads(file.read_text()) for file in tmp_path.glob("runs/rl-*/config.json")]
    assert len(configs) == 6  # two trials and a training of each
    trained = [config["rl"] for config in configs if config["rl"]["seed"] < 1000]
    assert {f"learning_rate {rl['learning_rate']:g}" for rl in trained} == chosen
    begun = tuned.begun()
    assert tuned.done("report")["chapters"][0]["sections"]["tuning"]["trials"] == tried
    assert {task["state"] for task in tuned.done("plan")["tasks"]} == {"done"}
    assert tuned.begun() == begun
