"""kill -9 or SIGTERM at any moment, then the same again: bit-identical weights, no step lost."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from pathlib import Path
from subprocess import Popen
from typing import Any

import pytest

from sage_cli.training.checkpoints import saved_step

Start = Callable[[dict[str, Any]], Popen[str]]


def ended(process: Popen[str]) -> int:
    """The exit code of a process that is waited for, and dead."""
    process.communicate(timeout=300)
    return process.returncode


def killed_after(
    start: Start, order: dict[str, Any], folder: Path, lines: int, delay_s: float
) -> None:
    """Run the order in a process and kill it `delay_s` after it has written `lines` records."""
    process = started(start, order, folder, lines)
    time.sleep(delay_s)
    assert process.poll() is None, "it ended before it could be killed"
    process.kill()
    assert ended(process) == -9


def terminated_after(
    start: Start, order: dict[str, Any], folder: Path, lines: int, delay_s: float
) -> int:
    """The same with SIGTERM; the step that it is saved at, which is the last that it has taken."""
    process = started(start, order, folder, lines)
    time.sleep(delay_s)
    process.terminate()
    assert ended(process) == 1  # Python's for what was raised; commands have their own
    step = saved_step(folder / "checkpoints")
    assert step == len((folder / "metrics.jsonl").read_text().splitlines()) >= lines
    return step


def started(start: Start, order: dict[str, Any], folder: Path, lines: int) -> Popen[str]:
    """The order in a process that has just written `lines` records."""
    process = start(order)
    metrics = folder / "metrics.jsonl"
    deadline = time.monotonic() + 120
    while time.monotonic() < deadline and process.poll() is None:
        if metrics.is_file() and len(metrics.read_text().splitlines()) >= lines:
            break
        time.sleep(0.002)
    return process


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

    whole = same_ends(bench.folder / "whole", bench.folder / "killed", steps=14)
    assert sum(record["groups/discarded"] for record in whole) > 0


@pytest.mark.slow
def test_terminated_trainings_lose_no_step_and_end_as_undisturbed_ones(start: Start, bench: Any):
    """By steps nothing is saved before the end, as in a default run of 40."""
    order = {
        "base": str(bench.base),
        "folder": str(bench.folder),
        "name": "stopped",
        "sections": {
            "guide": {"name": "random"},
            "rl": {"steps": 12, "save_every": 50, "iterations": 2, "dynamic_sampling": True},
        },
    }
    assert ended(start({**order, "name": "whole"})) == 0
    stopped, steps = bench.folder / "stopped", [0]
    for delay_s in (0.0, 0.01, 0.03):
        steps.append(terminated_after(start, order, stopped, steps[-1] + 1, delay_s))
        assert steps[-1] % 2 == 0  # a generation's end
    assert steps == sorted(set(steps))
    assert ended(start(order)) == 0
    same_ends(bench.folder / "whole", stopped, steps=12)


def same_ends(one: Path, other: Path, steps: int) -> list[dict[str, Any]]:
    """Records and weights of both runs are the same; returns the records."""
    records = timeless_records(one)
    assert [record["step"] for record in records] == list(range(1, steps + 1))
    assert timeless_records(other) == records
    weights = [(run / "model/model.safetensors").read_bytes() for run in (one, other)]
    assert weights[0] == weights[1]
    return records


def timeless_records(run: Path) -> list[dict[str, Any]]:
    """The run's records without what a clock says."""
    lines = (run / "metrics.jsonl").read_text().splitlines()
    return [
        {
            key: value
            for key, value in json.loads(line).items()
            if not key.startswith(("time/", "memory/"))
        }
        for line in lines
    ]
