"""kill -9 at any moment, then the same again: bit-identical weights, no step lost or doubled."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any

import pytest

Start = Callable[[dict[str, Any]], BaseProcess]


def ended(process: BaseProcess) -> int | None:
    """The exit code of a process that is waited for."""
    process.join(timeout=300)
    return process.exitcode


def killed_after(
    start: Start, order: dict[str, Any], folder: Path, lines: int, delay_s: float
) -> None:
    """Run the order in a process and kill it `delay_s` after it has written `lines` records."""
    process = start(order)
    metrics = folder / "metrics.jsonl"
    deadline = time.monotonic() + 120
    while time.monotonic() < deadline and process.is_alive():
        if metrics.is_file() and len(metrics.read_text().splitlines()) >= lines:
            time.sleep(delay_s)
            break
        time.sleep(0.002)
    assert process.is_alive(), "it ended before it could be killed"
    process.kill()
    assert ended(process) == -9


@pytest.mark.slow
@pytest.mark.parametrize("guide", ["random", "token"])
def test_killed_trainings_end_as_undisturbed_ones(start: Start, bench: Any, guide: str):
    order = {
        "base": str(bench.base),
        "folder": str(bench.folder),
        "name": "killed",
        "sections": {
            "guide": {"name": guide},
            "rl": {"steps": 14, "save_every": 3, "dynamic_sampling": True},
        },
    }
    assert ended(start({**order, "name": "whole"})) == 0
    for lines, delay_s in ((4, 0.0), (9, 0.02)):
        killed_after(start, order, bench.folder / "killed", lines, delay_s)
    assert ended(start(order)) == 0

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
