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


def started(order: dict[str, Any]) -> subprocess.Popen[bytes]:
    """A process that carries out the order; one thread, since sums depend on how many there are."""
    path = os.pathsep.join([str(SUPPORT), *filter(None, [os.environ.get("PYTHONPATH")])])
    environment = os.environ | {"PYTHONPATH": path, "OMP_NUM_THREADS": "1"}
    command = [sys.executable, str(SUPPORT / "toy_run.py"), json.dumps(order)]
    return subprocess.Popen(command, env=environment, stderr=subprocess.DEVNULL)


def killed_after(order: dict[str, Any], folder: Path, lines: int, delay_s: float) -> None:
    """Run the order in a process and kill it `delay_s` after it has written `lines` records."""
    process = started(order)
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
def test_killed_trainings_end_as_undisturbed_ones(bench: Any, guide: str):
    order = {
        "base": str(bench.base),
        "folder": str(bench.folder),
        "name": "killed",
        "sections": {
            "guide": {"name": guide},
            "rl": {"steps": 14, "save_every": 3, "dynamic_sampling": True},
        },
    }
    assert started({**order, "name": "whole"}).wait() == 0
    for lines, delay_s in ((4, 0.0), (9, 0.02)):
        killed_after(order, bench.folder / "killed", lines, delay_s)
    assert started(order).wait() == 0

    whole, killed = (timeless_records(bench.folder / name) for name in ("whole", "killed"))
    assert [record["step"] for record in killed] == list(range(1, 15))
    assert sum(record["groups/discarded"] for record in whole) > 0
    assert killed == whole
    weights = [
        (bench.folder / name / "model/model.safetensors").read_bytes()
        for name in ("whole", "killed")
    ]
    assert weights[0] == weights[1]


def timeless_records(run: Path) -> list[dict[str, Any]]:
    """The run's records without what a clock says."""
    lines = (run / "metrics.jsonl").read_text().splitlines()
    return [
        {key: value for key, value in json.loads(line).items() if not key.startswith("time/")}
        for line in lines
    ]
