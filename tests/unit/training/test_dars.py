"""DARS through the trainer: its loss in double precision, and its sizes."""

from __future__ import annotations

from dataclasses import replace
from functools import wraps
from typing import Any

import pytest
import torch
from scored_batch import assert_same_gradients, log_chances
from torch import Tensor
from toy_policy import StepsSeen
from trl import GRPOTrainer

from sage_cli.grading import Grade
from sage_cli.methods.dars import extra_rollouts
from sage_cli.training.rl_trainer import RlTrainer

GROUP, MOST, LIMIT = 4, 10, 12
DARS = {
    "algo": "dars", "most_rollouts": MOST,
    "prompts_per_step": 4, "rollouts_per_prompt": GROUP, "micro_batch": 4,
}  # fmt: skip


def strict_grader(golds: Any, completions: Any) -> list[Grade]:
    """Right where the first character's code is a multiple of 4: about one in four at first."""
    return [Grade("right" if t and ord(t[0]) % 4 == 0 else "wrong", None) for t in completions]


@pytest.fixture
def hard(bench: Any) -> Any:
    return replace(bench, grader=strict_grader)


def rows_of(batch: dict[str, Any], statuses: list[str]) -> list[tuple[int, Any, Any, bool]]:
    """(prompt's number, its tokens, the completion's, whether it is right) of each row."""
    rows = []
    for i, status in enumerate(statuses):
        prompt = batch["prompt_ids"][i][batch["prompt_mask"][i].bool()].tolist()
        completion = batch["completion_ids"][i][batch["completion_mask"][i].bool()].tolist()
        rows.append((int(batch["prompt_row_B"][i]), prompt, completion, status == "right"))
    return rows


def plain_loss(now: Any, drew: Any, rows: list[Any]) -> Tensor:
    """The clipped loss over pools with both grades, a token at a time."""
    pools = {number: [row for row in rows if row[0] == number] for number, *_ in rows}
    total, taught = torch.zeros((), dtype=torch.float64), 0
    for pool in pools.values():
        share = sum(right for *_, right in pool) / len(pool)
        if share in (0, 1):
            continue
        taught += len(pool)
        for _, prompt, completion, right in pool:
            with torch.no_grad():
                old_T = log_chances(drew, prompt, completion)
            ratio_T = (log_chances(now, prompt, completion) - old_T).exp()
            advantage = right - share
            clipped_T = ratio_T.clamp(0.8, 1.2) * advantage
            total = total - torch.minimum(ratio_T * advantage, clipped_T).sum()
    return total / (taught * LIMIT)


def test_two_updates_have_the_loss_and_gradient_of_the_pools(
    hard: Any, configure: Any, monkeypatch: pytest.MonkeyPatch
):
    rl = {**DARS, "iterations": 2, "steps": 2, "learning_rate": 1e-2, "warmup_ratio": 0.0,
          "max_grad_norm": 1e9}  # fmt: skip
    trainer = hard.trainer(configure(rl=rl, anchor={"kl": "none"}))
    first: list[Any] = []
    extra: list[Any] = []
    pool, score = trainer.hooks.pooled, trainer.score_rows

    def pooling(own: Any, rows: Any, batch: Any, right_PN: Tensor) -> Any:
        first.extend(rows_of(batch, trainer.hooks.reward.statuses))
        return pool(own, rows, batch, right_PN)

    def scoring(rows: Any) -> Any:
        batch, statuses = score(rows)
        extra.extend(rows_of(batch, trainer.hooks.reward.statuses))
        return batch, statuses

    monkeypatch.setattr(trainer.hooks, "pooled", pooling)
    monkeypatch.setattr(trainer, "score_rows", scoring)

    seen = StepsSeen(trainer, hard.base).steps
    records: list[dict[str, Any]] = []
    trainer.writer.on_step = lambda record: records.append(dict(record))
    trainer.train()
    counts = [sum(r for *_, r in first[i : i + GROUP]) for i in range(0, 16, GROUP)]
    wanted = [extra_rollouts(c, GROUP, "et", MOST) for c in counts]
    assert records[0]["rollouts/extra"] == sum(wanted) > 0
    numbers = [first[i * GROUP][0] for i in range(4)]
    drawn = [n for n, count in zip(numbers, wanted, strict=True) for _ in range(count)]
    real: list[Any] = []  # without what only fills a portion of 16 up to whole groups
    while len(real) < len(drawn):
        portion = min(16, len(drawn) - len(real))
        real += extra[:portion]
        del extra[: -(-portion // GROUP) * GROUP]
    assert [number for number, *_ in real] == drawn
    rows = first + real
    for (model, gradients), record in zip(seen, records, strict=True):
        loss = plain_loss(model, seen[0][0], rows)
        loss.backward()
        assert record["loss"] == pytest.approx(loss.item(), abs=1e-5)
        assert_same_gradients(model, gradients)


def test_never_more_rows_at_once_than_without_it(
    hard: Any, configure: Any, monkeypatch: pytest.MonkeyPatch
):
    drawn: list[int] = []
    passed: list[int] = []
    generate = RlTrainer._generate
    forward = GRPOTrainer._get_per_token_logps_and_entropies

    def generating(self: Any, prompts: list[Any]) -> Any:
        drawn.append(len(prompts))
        return generate(self, prompts)

    @wraps(forward)  # whose arguments the trainer checks
    def passing(self: Any, model: Any, ids: Tensor, *rest: Any, **named: Any) -> Any:
        at_once = (rest[2] if len(rest) > 2 else named.get("batch_size")) or len(ids)
        passed.append(min(at_once, len(ids)))
        return forward(self, model, ids, *rest, **named)

    monkeypatch.setattr(RlTrainer, "_generate", generating)
    monkeypatch.setattr(GRPOTrainer, "_get_per_token_logps_and_entropies", passing)
    records = hard.run(configure(rl={**DARS, "allocation": "hw", "most_rollouts": 30, "steps": 2}))
    assert records[0]["rollouts/extra"] > 16
    assert max(drawn) == 16
    assert max(passed) == 4
    assert records[0]["groups/rescued"] <= records[0]["groups/second_stage"] <= 4
