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


def test_processes_and_torchrun_train_the_same(tmp_path: Path, base: Path):
    mirrored = ("--set", "tracking.wandb=offline")
    common = ("--init", str(base), "--guide", "random", "--full", *mirrored)
    found = []
    program = tmp_path / "sage.py"
    program.write_text(SCRIPT[1])
    for name, launcher, extra in (
        ("own", SCRIPT, ("--processes", "2")),
        ("torchrun", [*TORCHRUN, str(program)], ()),
    ):
        folder = tmp_path / name
        folder.mkdir()
        finished = typed(folder, launcher, *common, *extra)
        assert finished.returncode == 0, finished.stderr[-2000:]
        (weights,) = folder.glob("runs/rl-*/model/model.safetensors")
        found.append((weights.read_bytes(), [record["step"] for record in records(folder)]))
        mirror = read_offline(weights.parents[1])
        assert list(mirror.history) == [1, 2, 3]
        assert [(step, len(rows)) for step, rows in mirror.tables.items()] == [(1, 2)]
    assert found[0] == found[1]
    assert found[0][1] == [1, 2, 3]
    (manifest,) = (tmp_path / "own").glob("runs/rl-*/manifest.json")
    assert json.loads(manifest.read_text())["status"] == "finished"


NOISY = (
    "--guide", "random", "--set", "guide.epsilon=[1,1]", "--full", "--processes", "2", "--beta",
    "1", "--steps", "4",
)  # fmt: skip
"""With noise on every token's anchor, so that the weights move without a right answer."""


def test_accelerates_ddp_and_a_resumed_run_train_what_torchrun_trains(tmp_path: Path, base: Path):
    command = (*NOISY, "--init", str(base))

    def weights(folder: Path, *extra: str) -> dict[str, torch.Tensor]:
        finished = typed(folder, SCRIPT, *command, *extra)
        assert finished.returncode == 0, finished.stderr[-2000:]
        (file,) = folder.glob("runs/rl-*/model/model.safetensors")
        return load_file(file)

    plain = weights(tmp_path)
    start = load_file(base / "model.safetensors")
    assert max((plain[name] - start[name]).abs().max().item() for name in plain) > 1e-5
    shutil.copytree(tmp_path / "runs", tmp_path / "torn" / "runs")
    (run,) = (tmp_path / "torn").glob("runs/rl-*")
    for later in ("model", "checkpoints/checkpoint-4"):
        shutil.rmtree(run / later)
    (run / "manifest.json").write_text('{"status": "running"}')
    resumed = weights(tmp_path / "torn", "--accelerate", "ddp")
    assert [record["step"] for record in records(tmp_path / "torn")] == [1, 2, 3, 4]
    assert all(torch.equal(resumed[name], tensor) for name, tensor in plain.items())


def test_forward_kl_draws_its_samples_once(tmp_path: Path, base: Path):
    common = (
        "--init",
        str(base),
        "--kl",
        "forward",
        "--full",
        "--set",
        "anchor.reference_samples=2",
    )
    finished = typed(tmp_path, SCRIPT, *common)
    assert finished.returncode == 0, finished.stderr[-2000:]
    assert all("kl/forward" in record for record in records(tmp_path))
    again = typed(tmp_path, SCRIPT, *common, "--seed", "1", "--fresh")
    assert again.returncode == 0, again.stderr[-2000:]
    assert "sample the reference" not in again.stdout
