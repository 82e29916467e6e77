"""kill -9 or SIGTERM at any moment, then the same again: bit-identical weights, no step lost.

Processes signal themselves at the moments that are meant, however fast the machine is.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from signal import SIGKILL, SIGTERM
from subprocess import Popen
from typing import Any

import pytest

from sage_cli.store.run import Run
from sage_cli.training.checkpoints import saved_step

Start = Callable[[dict[str, Any]], Popen[str]]


def ended(process: Popen[str]) -> int:
    """The exit code of a process that is waited for, and dead."""
    process.communicate(timeout=300)
    return process.returncode


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
    for step, moment in ((4, "recorded"), (9, "saving"), (11, "computing")):
        assert ended(start({**order, "signal": (SIGKILL, step, moment)})) == -SIGKILL
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
    stopped = bench.folder / "stopped"
    # a generation's rollouts are for two steps, after which it is saved
    for step, moment, saved in ((1, "recorded", 2), (4, "computing", 4), (9, "computing", 10)):
        # 1 is Python's for what was raised; commands have codes of their own
        assert ended(start({**order, "signal": (SIGTERM, step, moment)})) == 1
        assert saved_step(stopped / "checkpoints") == saved
        assert len((stopped / "metrics.jsonl").read_text().splitlines()) == saved
    assert ended(start(order)) == 0
    same_ends(bench.folder / "whole", stopped, steps=12)


def same_ends(one: Path, other: Path, steps: int) -> list[dict[str, Any]]:
    """Records and weights of both runs are the same; returns the records."""
    records = timeless_records(one)
    assert [record["step"] for record in records] == list(range(1, steps + 1))
    assert timeless_records(other) == records
    weights = [(run / "model/model.safetensors").read_bytes() for run in (one, other)]
    assert weights[0] == weights[1]
    assert Run(other).ledger.read().equals(Run(one).ledger.read())
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
