"""PACS through the trainer, against code of its own in double precision."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from scored_batch import assert_same_gradients, log_chances, rows_of
from torch import Tensor
from toy_policy import StepsSeen

from sage_cli.methods.pacs import PacsLoss

PROMPTS, GROUP, BETA = 2, 4, 0.3


def plain_loss(now: Any, drew: Any, rows: Any, right: list[list[float]]) -> Tensor:
    """The paper's formulas, a completion at a time."""
    score = []
    for *_, prompt, completion in rows:
        with torch.no_grad():
            old = log_chances(drew, prompt, completion).sum()
        score.append(BETA * (log_chances(now, prompt, completion).sum() - old))
    losses = []
    for p, labels in enumerate(right):
        mine, n = score[p * GROUP : (p + 1) * GROUP], sum(labels)
        for i, label in enumerate(labels):
            psi = mine[i] - sum(mine[j] for j in range(GROUP) if j != i) / (GROUP - 1)
            chance = torch.sigmoid(psi)
            count = n if label else GROUP - n
            weight = GROUP / (2 * count) if 0 < n < GROUP else 1.0
            losses.append(-weight * torch.log(chance if label else 1 - chance))
    return torch.stack(losses).mean()


def test_two_updates_of_a_generation_have_the_loss_and_gradient_of_the_paper(
    bench: Any, configure: Any
):
    rl = {
        "algo": "pacs", "score_scale": BETA, "iterations": 2, "steps": 2,
        "prompts_per_step": PROMPTS, "rollouts_per_prompt": GROUP, "micro_batch": 2,
        "learning_rate": 1e-2, "warmup_ratio": 0.0, "max_grad_norm": 1e9,
    }  # fmt: skip
    trainer = bench.trainer(configure(rl=rl, anchor={"kl": "none"}))
    seen = StepsSeen(trainer, bench.base).steps
    records: list[dict[str, Any]] = []
    trainer.writer.on_step = lambda record: records.append(dict(record))
    trainer.train()
    rows, right = rows_of(trainer), trainer.hooks._right_PN.double().tolist()
    assert any(0 < sum(labels) < GROUP for labels in right)
    drew, losses = seen[0][0], []
    for (model, gradients), record in zip(seen, records, strict=True):
        model.zero_grad()
        loss = plain_loss(model, drew, rows, right)
        loss.backward()
        assert record["loss"] == pytest.approx(loss.item(), abs=1e-5)
        losses.append(loss.item())
        assert_same_gradients(model, gradients)
    assert abs(losses[1] - losses[0]) > 0.01  # the second update's scores differ from 0


def test_no_pass_is_added_where_the_policy_is_the_one_that_drew(
    bench: Any, configure: Any, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(PacsLoss, "_score", None)  # can't be called
    rl = {"algo": "pacs", "steps": 2, "learning_rate": 1e-2}
    records = bench.run(configure(rl=rl, anchor={"kl": "none"}))
    # scores 0: each completion's loss is ln 2, and weights of a group have mean 1
    assert [record["loss"] for record in records] == pytest.approx([0.693147] * 2, abs=1e-5)


def test_it_learns(bench: Any, configure: Any):
    rl = {"algo": "pacs", "steps": 12, "learning_rate": 0.01,
          "warmup_ratio": 0.0, "save_every": 12}  # fmt: skip
    records = bench.run(configure(rl=rl, guide={"name": "branch", "tau": 0.5}))
    assert records[-1]["reward"] > records[0]["reward"] + 0.2
    assert "kl/shaped" in records[0]  # the guide's anchor is there beside it
