"""`sage rl` in several processes, launched by itself or by torchrun, and on reference samples."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
from offline_wandb import read_offline
from safetensors.torch import load_file
from toy_policy import base, tokenizer
from typer.testing import CliRunner

from sage_cli.cli.app import app

__all__ = ["base", "tokenizer"]
pytestmark = pytest.mark.slow

SMALL = """
model: {hidden: 16, layers: 2, heads: 2, feed_forward: 32}
data: {arithmetic: {low: 2, high: 9, held_out: 4, development: 4}}
rl: {steps: 3, prompts_per_step: 4, rollouts_per_prompt: 4, save_every: 2, stop_when_stuck: false}
rollout: {max_tokens: 12}
sampling: {max_tokens: 12}
tracking: {wandb: "off"}
"""


def typed(folder: Path, launcher: list[str], *arguments: str) -> subprocess.CompletedProcess[str]:
    (folder / "small.yaml").write_text(SMALL)
    command = [sys.executable, *launcher, "rl", "--preset", "tiny", "--preset", "small.yaml"]
    environment = os.environ | {"OMP_NUM_THREADS": "1"}
    return subprocess.run(
        [*command, *arguments], cwd=folder, env=environment, capture_output=True, text=True,
        timeout=400,
    )  # fmt: skip


def records(folder: Path) -> list[dict[str, Any]]:
    (metrics,) = folder.glob("runs/rl-*/metrics.jsonl")
    return [json.loads(line) for line in metrics.read_text().splitlines()]


SCRIPT = ["-c", "from sage_cli.cli.app import main; main()"]
TORCHRUN = ["-m", "torch.distributed.run", "--standalone", "--nproc_per_node", "2"]


NOISY = (
    "--guide", "random", "--set", "guide.epsilon=[1,1]", "--full", "--beta", "1", "--steps", "4",
)  # fmt: skip
"""With noise on every token's anchor, so that the weights move without a right answer."""


def weights(folder: Path) -> dict[str, torch.Tensor]:
    """What the only run of RL in a folder ended with."""
    (file,) = folder.glob("runs/rl-*/model/model.safetensors")
    return load_file(file)


@pytest.fixture(scope="module")
def launched(base: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder where `sage rl --processes 2` was typed, mirrored offline."""
    folder = tmp_path_factory.mktemp("launched")
    mirrored = ("--set", "tracking.wandb=offline")
    finished = typed(folder, SCRIPT, *NOISY, "--processes", "2", "--init", str(base), *mirrored)
    assert finished.returncode == 0, finished.stderr[-2000:]
    return folder


def test_processes_train_together_and_are_one_run(launched: Path, base: Path):
    trained, start = weights(launched), load_file(base / "model.safetensors")
    assert max((trained[name] - start[name]).abs().max().item() for name in trained) > 1e-5
    assert [record["step"] for record in records(launched)] == [1, 2, 3, 4]
    (run,) = launched.glob("runs/rl-*")
    manifest = json.loads((run / "manifest.json").read_text())
    assert (manifest["status"], manifest["kind"]) == ("finished", "rl")
    mirror = read_offline(run)
    assert list(mirror.history) == [1, 2, 3, 4]
    assert [(step, len(rows)) for step, rows in mirror.tables.items()] == [(1, 2)]


def test_torchrun_trains_the_same(launched: Path, tmp_path: Path, base: Path):
    program = tmp_path / "sage.py"
    program.write_text(SCRIPT[1])
    finished = typed(tmp_path, [*TORCHRUN, str(program)], *NOISY, "--init", str(base))
    assert finished.returncode == 0, finished.stderr[-2000:]
    assert [record["step"] for record in records(tmp_path)] == [1, 2, 3, 4]
    other = weights(tmp_path)
    assert all(torch.equal(other[name], tensor) for name, tensor in weights(launched).items())
    (one,), (two,) = (folder.glob("runs/rl-*") for folder in (launched, tmp_path))
    assert one.name == two.name  # one identity, whoever launched


def test_accelerates_ddp_goes_on_with_what_was_interrupted(
    launched: Path, tmp_path: Path, base: Path
):
    shutil.copytree(launched / "runs", tmp_path / "runs")
    (run,) = tmp_path.glob("runs/rl-*")
    for later in ("model", "checkpoints/checkpoint-4"):
        shutil.rmtree(run / later)
    manifest = json.loads((run / "manifest.json").read_text())
    (run / "manifest.json").write_text(json.dumps(manifest | {"status": "running"}))
    ddp = ("--processes", "2", "--accelerate", "ddp", "--init", str(base))
    finished = typed(tmp_path, SCRIPT, *NOISY, *ddp)
    assert finished.returncode == 0, finished.stderr[-2000:]
    assert [record["step"] for record in records(tmp_path)] == [1, 2, 3, 4]
    resumed = weights(tmp_path)
    assert all(torch.equal(resumed[name], tensor) for name, tensor in weights(launched).items())


def test_forward_kl_draws_its_samples_once(
    tmp_path: Path, base: Path, monkeypatch: pytest.MonkeyPatch
):
    (tmp_path / "small.yaml").write_text(SMALL)
    monkeypatch.chdir(tmp_path)
    common = [
        "rl", "--preset", "tiny", "--preset", "small.yaml", "--init", str(base), "--kl", "forward",
        "--full", "--set", "anchor.reference_samples=2",
    ]  # fmt: skip
    first = CliRunner().invoke(app, common)
    assert first.exit_code == 0, first.output
    assert "sample base" in first.output
    assert all("kl/forward" in record for record in records(tmp_path))
    again = CliRunner().invoke(app, [*common, "--seed", "1", "--fresh"])
    assert again.exit_code == 0, again.output
