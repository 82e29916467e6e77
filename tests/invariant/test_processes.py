"""Two processes on gloo: the same batch and completions give the same loss, gradient, weights."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file

SUPPORT = Path(__file__).resolve().parents[1] / "support"


def train(order: dict[str, Any], processes: int) -> list[dict[str, Any]]:
    launcher = ["torch.distributed.run", "--standalone", "--nproc_per_node", str(processes)]
    command = [sys.executable, "-m", *launcher, str(SUPPORT / "toy_run.py"), json.dumps(order)]
    path = os.pathsep.join([str(SUPPORT), *filter(None, [os.environ.get("PYTHONPATH")])])
    environment = os.environ | {"PYTHONPATH": path, "OMP_NUM_THREADS": "1"}
    finished = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=300)
    assert finished.returncode == 0, finished.stderr[-3000:]
    metrics = Path(order["folder"]) / order["name"] / "metrics.jsonl"
    return [json.loads(line) for line in metrics.read_text().splitlines()]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("loss", "guide", "advantage"),
    [("dapo", "token", "group"), ("grpo", "random", "group"), ("grpo", "none", "per-token")],
)
def test_two_processes_are_as_one(bench: Any, loss: str, guide: str, advantage: str):
    order = {
        "base": str(bench.base),
        "folder": str(bench.folder),
        "fixed": True,
        "sections": {
            "guide": {"name": guide},
            "rl": {
                "loss": loss, "advantage": advantage, "steps": 3, "micro_batch": 4,
                "warmup_ratio": 0.0,
            },
        },
    }  # fmt: skip
    one, two = (train(order | {"name": f"of-{n}"}, n) for n in (1, 2))
    assert [record["step"] for record in two] == [1, 2, 3]
    for first, second in zip(one, two, strict=True):
        assert first.keys() == second.keys()
        for key, value in first.items():
            if not key.startswith("time/"):
                assert second[key] == pytest.approx(value, abs=1e-5, rel=1e-5), key
    weights = [load_file(bench.folder / f"of-{n}" / "model" / "model.safetensors") for n in (1, 2)]
    for name, tensor in weights[0].items():
        torch.testing.assert_close(weights[1][name], tensor, atol=1e-4, rtol=1e-4)
