"""Seconds by phase, tokens a second, memory: what is counted where."""

from __future__ import annotations

from contextlib import suppress
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from sage_cli.training.trainer.batch_record import PHASES, Phases, peak_memory


def test_a_phase_inside_another_takes_its_time_away_from_it():
    now = [0.0]
    settled: list[float] = []
    phases = Phases(lambda: settled.append(now[0]), lambda: now[0])

    def spend(seconds: float) -> None:
        now[0] += seconds

    with phases.during("loss"):
        spend(1)
        with phases.during("generate"):
            spend(2)
            with phases.during("sync"):
                spend(4)
            spend(8)
        with suppress(KeyError), phases.during("grade"):
            spend(16)
            raise KeyError
        spend(32)
    # loss 1 + 32, generate 2 + 8, and the device is waited for at each end
    assert phases.drain() == {"generate": 10, "sync": 4, "grade": 16, "reference": 0, "loss": 33}
    assert settled == [7, 15, 31, 63]
    assert phases.drain() == dict.fromkeys(PHASES, 0)


@pytest.mark.parametrize("peaks", [[3.0], [3.0, 5.0]])
def test_memory_is_the_highest_and_of_each_process(peaks: list[float]):
    of_all = SimpleNamespace(device="cpu", gather=lambda _: torch.tensor(peaks))
    found = peak_memory(of_all)
    assert found["memory/peak_gib"] == max(peaks)
    assert len(found) == (1 if len(peaks) == 1 else 3)


def test_a_gpus_peak_is_the_steps(monkeypatch: pytest.MonkeyPatch):
    reset: list[None] = []
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "max_memory_allocated", lambda: 3 * 2**30)
    monkeypatch.setattr(torch.cuda, "reset_peak_memory_stats", lambda: reset.append(None))
    alone = SimpleNamespace(device="cpu", gather=lambda values: values)
    assert peak_memory(alone) == {"memory/peak_gib": 3.0}
    assert reset == [None]


def test_a_trainings_phases_are_its_steps(bench: Any, configure: Any):
    """16 completions a step, drawn for two of them: what isn't drawn takes no time."""
    rl = {"iterations": 2, "advantage": "group"}
    records = bench.run(configure(rl=rl, anchor={"beta": 0.1}, guide={"name": "branch"}))
    for record in records:
        phases = [record[f"time/{phase}_s"] for phase in PHASES]
        assert sum(phases) <= record["time/step_s"]
        assert record["time/loss_s"] > 0
        assert record["time/sync_s"] == 0  # no engine
        tokens = 16 * record["completions/length"]
        trained_s = record["time/step_s"]
        assert record["time/trained_tokens_per_s"] == pytest.approx(tokens / trained_s)
        assert record["memory/peak_gib"] > 0
    drawn, again = records[0], records[1]
    assert drawn["time/generated_tokens_per_s"] == pytest.approx(
        16 * drawn["completions/length"] / drawn["time/generate_s"]
    )
    assert (drawn["time/reference_s"] > 0, drawn["time/grade_s"] > 0) == (True, True)
    assert "time/generated_tokens_per_s" not in again
    assert [again[f"time/{phase}_s"] for phase in ("generate", "grade", "reference")] == [0, 0, 0]
