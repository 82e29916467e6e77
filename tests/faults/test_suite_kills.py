"""Suites of real, small trainings: killed and started again."""

import json
import os
import signal
from contextlib import suppress

import pytest
from sweep_lab import SuiteLab, measured


def training(lab):
    """The process that trains by RL, as it says itself while it lives; None where none does."""
    for held in lab.folder.glob("runs/rl-*/.lock.lease"):
        with suppress(OSError, ValueError):
            pid = int(json.loads(held.read_text())["pid"])
            os.kill(pid, 0)
            return pid
    return None


def kill_driver_when(lab, holds):
    """Start, and SIGKILL the driver alone as of `holds`; its tasks must end by themselves."""
    driver = lab.start("run")
    lab.wait_until(holds, 1800)
    driver.send_signal(signal.SIGKILL)
    driver.communicate()


@pytest.mark.slow
@pytest.mark.timeout(3600)  # a dozen processes, each of which loads torch
def test_kills_of_driver_task_and_group_and_the_same_result(tmp_path, warm):
    folders = [tmp_path / name for name in ("undisturbed", "killed")]
    for folder in folders:
        folder.mkdir()
    undisturbed, killed = (SuiteLab(folder, warm) for folder in folders)
    for lab in (undisturbed, killed):
        lab.write()
    expected, runs = undisturbed.run("run"), killed.folder / "runs"
    kill_driver_when(killed, lambda: any(runs.glob("sft-*/metrics.jsonl")))
    driver = killed.start("run", "--json")
    killed.wait_until(lambda: any(runs.glob("rl-*/metrics.jsonl")), 1800)
    first = training(killed)
    assert first is not None
    # the task alone: the driver has it done once more
    os.kill(first, signal.SIGKILL)
    killed.wait_until(lambda: training(killed) not in (None, first), 1800)
    second = training(killed)
    assert second is not None
    # the task with all that holds it: the driver gives it up, and reports
    os.killpg(os.getpgid(second), signal.SIGKILL)
    out, errors = driver.communicate(timeout=3000)
    assert driver.returncode == 0, errors[-4000:]
    assert measured(json.loads(out))["rows"][1]["model"].startswith("grpo (killed")
    kill_driver_when(killed, lambda: training(killed) is not None)
    answer = killed.run("run")
    assert measured(answer)["rows"] == measured(expected)["rows"]
    keys = ("sample_set", "statuses", "problems")
    one, other = (
        [{key: each[key] for key in keys} for each in measured(found)["measurements"]]
        for found in (answer, expected)
    )
    assert one == other
    claims, undisturbed_claims = (
        found["chapters"][0]["sections"]["claims"] for found in (answer, expected)
    )
    assert claims == undisturbed_claims
