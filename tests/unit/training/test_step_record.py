"""The trainer's probabilities against those of the engine that drew the rollouts."""

from __future__ import annotations

import math
from contextlib import suppress
from functools import wraps
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from recorded import meaning
from torch import Tensor
from trl import GRPOTrainer

from sage_cli.training.step_record import (
    PHASES,
    Phases,
    TokenRecord,
    add_mismatch,
    mismatch_statistics,
    peak_memory,
)


class One:
    num_processes = 1


LOGPS_BT = torch.tensor([[1.1, 0.8, 9.0], [1.0, 0.5, 1.0]]).log()
BATCH = {
    "completion_mask": torch.tensor([[1, 1, 0], [1, 1, 1]]),
    "sampling_per_token_logps": torch.tensor([[0.0, 0.0, 0.0], [0.0, 0.0, math.nan]]),
}
"""Ratios 1.1, .8 and 1, .5; a masked one and one that the engine left out."""


def signals(*, whole: bool) -> dict[str, Tensor]:
    record = TokenRecord()
    add_mismatch(record, BATCH, LOGPS_BT, whole=whole)
    return record.drain(One())


def test_statistics_of_tokens_by_hand():
    found = mismatch_statistics(signals(whole=False), 1.05)
    logs = [math.log(r) for r in (1.1, 0.8, 1.0, 0.5)]
    assert found == pytest.approx(
        {
            "mismatch/difference_mean": sum(map(abs, logs)) / 4,
            "mismatch/difference_max": math.log(2),
            "mismatch/ratio_min": 0.5,
            "mismatch/ratio_mean": 0.85,  # (1.1 + .8 + 1 + .5) / 4
            "mismatch/ratio_max": 1.1,
            "mismatch/kl": (3.4 - sum(logs)) / 4 - 1,  # the mean of r - log r - 1
            "mismatch/cut": 0.25,
        },
        rel=1e-6,
    )
    assert all(meaning(key) for key in found)


def test_ratios_of_completions_are_products_and_nothing_is_cut_without_a_cap():
    found = mismatch_statistics(signals(whole=True), None)
    assert found["mismatch/ratio_min"] == pytest.approx(0.5)  # 1 x .5
    assert found["mismatch/ratio_max"] == pytest.approx(0.88)  # 1.1 x .8
    assert "mismatch/cut" not in found
    assert found["mismatch/difference_max"] == pytest.approx(math.log(2))  # of a token still


def test_without_an_engine_nothing_is_said():
    assert mismatch_statistics({}, 2.0) == {}


def test_older_probabilities_are_the_drawing_policys():
    record = TokenRecord()
    add_mismatch(record, {**BATCH, "old_per_token_logps": LOGPS_BT}, LOGPS_BT + 1, whole=False)
    assert mismatch_statistics(record.drain(One()), 2.0)["mismatch/ratio_max"] == pytest.approx(1.1)


def engine(monkeypatch: pytest.MonkeyPatch, share: float) -> None:
    """Have TRL take samples of `generate` for vLLM's, with probabilities times `share`."""
    plain = GRPOTrainer._generate_single_turn

    @wraps(plain)  # the seam is checked by its signature
    def generate(trainer: Any, prompt_ids: list[list[int]], *rest: Any, **named: Any) -> Any:
        trainer.use_vllm = False
        ids, _ = plain(trainer, prompt_ids, *rest, **named)
        trainer.use_vllm, trainer.vllm_importance_sampling_mode = True, "token_truncate"
        logps = [
            logps_of(trainer.model, prompt, drawn, trainer.temperature)
            for prompt, drawn in zip(prompt_ids, ids, strict=True)
        ]
        return ids, [(row + math.log(share)).tolist() for row in logps]

    monkeypatch.setattr(GRPOTrainer, "_generate_single_turn", generate)


@torch.no_grad()
def logps_of(model: Any, prompt: list[int], drawn: list[int], temperature: float) -> Tensor:
    logits = model(torch.tensor([[*prompt, *drawn]])).logits[0, len(prompt) - 1 : -1]
    return (logits / temperature).log_softmax(-1).gather(1, torch.tensor(drawn)[:, None])[:, 0]


@pytest.mark.parametrize("iterations", [1, 2])
def test_a_trainings_records_say_how_far_the_engine_is(
    bench: Any, configure: Any, monkeypatch: pytest.MonkeyPatch, iterations: int
):
    engine(monkeypatch, 1 / 0.9)  # probabilities that are too large by the same factor
    rl = {"steps": 2, "iterations": iterations, "micro_batch": 8}
    records = bench.run(configure(rl=rl, rollout={"min_p": 0.05}))
    for record in records:
        assert record["mismatch/ratio_mean"] == pytest.approx(0.9, abs=1e-5)
        assert record["mismatch/ratio_max"] == pytest.approx(0.9, abs=1e-4)
        assert record["mismatch/cut"] == 0
        assert record["mismatch/difference_mean"] == pytest.approx(-math.log(0.9), abs=1e-5)
        assert record["mismatch/kl"] == pytest.approx(0.9 - math.log(0.9) - 1, abs=1e-5)


def test_rollouts_without_log_probabilities_have_no_such_records(bench: Any, configure: Any):
    records = bench.run(configure(rl={"steps": 1}, rollout={"min_p": 0.05}))
    assert not [key for key in records[0] if key.startswith("mismatch/")]


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
