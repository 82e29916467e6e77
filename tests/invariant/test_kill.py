"""kill -9 at any moment, then the same again: bit-identical weights, no step lost or doubled."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

SUPPORT = Path(__file__).resolve().parents[1] / "support"


def killed_after(order: dict[str, Any], folder: Path, lines: int, delay_s: float) -> None:
    """Run the order in a process and kill it `delay_s` after it has written `lines` records."""
    environment = os.environ | {"PYTHONPATH": str(SUPPORT), "OMP_NUM_THREADS": "1"}
    command = [sys.executable, str(SUPPORT / "toy_run.py"), json.dumps(order)]
    process = subprocess.Popen(command, env=environment, stderr=subprocess.DEVNULL)
    metrics = folder / "metrics.jsonl"
    deadline = time.monotonic() + 120
    while time.monotonic() < deadline and process.poll() is None:
        if metrics.is_file() and len(metrics.read_text().splitlines()) >= lines:
            time.sleep(delay_s)
            break
        time.sleep(0.002)
    assert process.poll() is None, "it ended before it could be killed"
    process.send_signal(signal.SIGKILL)
    process.wait()


@pytest.mark.slow
@pytest.mark.parametrize("guide", ["random", "token"])
def test_killed_trainings_end_as_undisturbed_ones(bench: Any, configure: Any, guide: str):
    sections = {
        "guide": {"name": guide},
        "rl": {"steps": 14, "save_every": 3, "dynamic_sampling": True},
    }
    whole = bench.run(configure(**sections), "whole")
    assert sum(record["groups/discarded"] for record in whole) > 0
    order = {
        "base": str(bench.base), "folder": str(bench.folder), "name": "killed",
        "sections": sections,
    }  # fmt: skip
    for lines, delay_s in ((4, 0.0), (9, 0.02)):
        killed_after(order, bench.folder / "killed", lines, delay_s)
    bench.run(configure(**sections), "killed")

    weights = [
        (bench.folder / name / "model/model.safetensors").read_bytes()
        for name in ("whole", "killed")
    ]
    assert weights[0] == weights[1]
    records = [
        json.loads(line)
        for line in (bench.folder / "killed/metrics.jsonl").read_text().splitlines()
    ]
    assert [record["step"] for record in records] == list(range(1, 15))
    for record, undisturbed in zip(records, whole, strict=True):
        timeless = {k: v for k, v in undisturbed.items() if not k.startswith("time/")}
        assert {k: record[k] for k in timeless} == timeless
