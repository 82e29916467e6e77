"""RLPR through the trainer: what is paid, what is logged, and that it goes on as it was."""

import json
from dataclasses import replace
from functools import wraps
from typing import Any

import pytest
import torch
from scored_batch import log_chances
from toy_policy import PROMPTS, KilledError, killing, timeless, weights
from trl import GRPOTrainer

from sage_cli.errors import DataError, StoreError
from sage_cli.methods import rlpr
from sage_cli.methods.rlpr import probability_reward
from sage_cli.models.loading import load_model
from sage_cli.store.run import SEAL
from sage_cli.training.checkpoints import seal

RL = {"algo": "rlpr", "reward_filter": 0.0}
OPEN, CLOSE = "<SOLUTION>", "</SOLUTION>"


def plain_chance(model, tokenizer, before, gold):
    """The mean of the gold's tokens' probabilities."""
    ids = [tokenizer(text, add_special_tokens=False)["input_ids"] for text in (before, gold)]
    return log_chances(model, *ids).exp().mean().item()


def writing(monkeypatch, tokenizer, text_of):
    """Completions by their row and their prompt."""

    @wraps(GRPOTrainer._generate_single_turn)  # whose arguments the trainer checks
    def drawn(self, prompt_ids, *_, **__):
        texts = [text_of(i, prompt) for i, prompt in enumerate(tokenizer.batch_decode(prompt_ids))]
        ids = tokenizer(texts)["input_ids"]
        return [[*row, self.eos_token_ids[0]] for row in ids], None

    monkeypatch.setattr(GRPOTrainer, "_generate_single_turn", drawn)


@torch.no_grad()
def test_rewards_and_advantages_are_those_of_the_formulas(
    bench: Any, configure: Any, monkeypatch: pytest.MonkeyPatch
):
    # of four kinds in each group: two formed, one cut off, one without a place
    texts = [f"1+1{OPEN}2{CLOSE}", f"{OPEN}99{CLOSE}", f"7*7{OPEN}4", "3*4=12"]
    writing(monkeypatch, bench.tokenizer, lambda i, _: texts[i % 4])
    config = configure(rl={**RL, "steps": 1, "micro_batch": 4}, anchor={"kl": "none"})

    def policy():
        """Unsure enough for golds to be likelier after some completions than after the prompt."""
        made = load_model(bench.base)
        made.lm_head.weight.mul_(0.1)
        return made

    trainer, model = bench.trainer(config, model=policy()), policy().double()
    rows = [trainer.train_dataset[i // 4] for i in range(16)]
    trainer.model.train()
    batch = trainer._generate_and_score_completions(rows)
    expected = []
    for i, row in enumerate(rows):
        text = trainer.now.texts[i]
        formed = CLOSE in text
        before = row["prompt"] + text[: text.find(OPEN) + len(OPEN)]
        b = plain_chance(model, bench.tokenizer, before, row["gold"]) if formed else 0.0
        a = plain_chance(model, bench.tokenizer, row["prompt"] + OPEN, row["gold"])
        expected.append(0.9 * min(max(b - a, 0), 1) + 0.1 * formed)
    assert trainer.now.rewards_BF[:, 0].tolist() == pytest.approx(expected, abs=1e-5)
    assert max(expected) > 0.1001  # some were worth more than their form
    group_PN = torch.tensor(expected).reshape(4, 4)
    centred_PN = group_PN - group_PN.mean(dim=1, keepdim=True)
    advantages_PN = centred_PN / (group_PN.std(dim=1, keepdim=True) + 1e-4)
    torch.testing.assert_close(batch["advantages"], advantages_PN.flatten(), atol=1e-3, rtol=1e-4)
    assert trainer.hooks.reward.record["reward/formed"] == pytest.approx(0.5)
    assert len(trainer.hooks.reward.statuses) == 16  # the grades


def test_groups_of_little_deviation_teach_nothing(bench, configure, monkeypatch):
    trainer = bench.trainer(configure(rl={**RL, "reward_filter": 0.5, "steps": 12}))
    trainer.hooks.reward.deviations = [9.0] * 5 + [0.1, 0.2, 0.3, 0.4]
    # deviations 0 and .5 x sqrt(4 / 3) = .57735, mean .288675, which is that of step 10
    rewards_PN = torch.tensor([[0.1] * 4, [0.0, 1.0, 0.0, 1.0]])
    trainer.hooks.reward.record = {}
    assert trainer.hooks.reward.keep(rewards_PN).tolist() == [True, True]
    assert trainer.hooks.reward.record["reward/deviation"] == pytest.approx(0.288675)
    assert "reward/spread" not in trainer.hooks.reward.record
    assert trainer.hooks.reward.keep(rewards_PN).tolist() == [False, True]
    assert trainer.hooks.reward.record["reward/spread"] == pytest.approx(0.257735)  # 1.288675 / 5
    assert trainer.hooks.reward.record["groups/filtered"] == 1


def test_a_resumed_training_is_paid_by_the_same_start_and_average(bench, configure):
    rl = {**RL, "reward_filter": 1.0, "steps": 14, "save_every": 12, "learning_rate": 1e-3}
    config = configure(rl=rl, guide={"name": "branch", "tau": 0.5})
    whole = bench.run(config, "whole")
    rest = bench.resumed(config, "resumed", 13)
    assert [record["step"] for record in rest] == [13, 14]
    assert timeless(rest) == timeless(whole[12:])
    assert weights(bench.folder / "resumed/model") == weights(bench.folder / "whole/model")
    assert {"reward", "grade/right", "reward/paid", "reward/probability"} <= whole[0].keys()


@pytest.mark.parametrize("compute_dtype", ["float32", "bfloat16"])
def test_golds_are_read_at_the_start_as_in_training(bench, configure, compute_dtype, monkeypatch):
    """Of a completion of nothing but the gold, before any update, b is a."""

    def answered(_, prompt):
        a, b = prompt.removesuffix("=?").split("*")
        return f"{OPEN}{int(a) * int(b)}{CLOSE}"

    writing(monkeypatch, bench.tokenizer, answered)
    read = []

    def paid(chance, at_start, **form):
        read.append((chance, at_start))
        return probability_reward(chance, at_start, **form)

    monkeypatch.setattr(rlpr, "probability_reward", paid)
    model = load_model(bench.base, trainable=True)
    with torch.no_grad():
        model.lm_head.weight.mul_(0.1)  # unsure, so that every gold has a chance
    settings = {"model": {"compute_dtype": compute_dtype}, "anchor": {"kl": "none"}}
    bench.run(configure(rl={**RL, "steps": 1}, **settings), model=model)
    assert len(read) == 16
    # read in batches of different rows, for which a processor may round a bfloat16 product by
    # another unit of 2**-8, that is .4 % of a log-probability of about 5
    rel = 1e-6 if compute_dtype == "float32" else 0.02
    for chance, at_start in read:
        assert chance > 0.002
        assert chance == pytest.approx(at_start, rel=rel)


def test_the_start_is_kept_in_checkpoints_alone(bench, configure):
    config = configure(rl={**RL, "steps": 4, "save_every": 2, "keep_checkpoints": None})

    with pytest.raises(KilledError):
        bench.run(config, on_step=killing(3))
    kept = bench.folder / "run/checkpoints/checkpoint-2/reward.json"
    golds = json.loads(kept.read_text())["golds_at_start"]
    with torch.no_grad():
        model = load_model(bench.base).double()
        expected = [
            plain_chance(model, bench.tokenizer, text + OPEN, problem.gold)
            for text, problem in PROMPTS
        ]
    assert golds == pytest.approx(expected, abs=1e-6)
    (kept.parent / SEAL).unlink()
    kept.write_text("{}")  # as an earlier release left it
    seal(kept.parent)
    with pytest.raises(StoreError, match="step 2 has no probabilities of the golds at the start"):
        bench.run(config)


def test_an_empty_gold_is_refused_before_anything_is_trained(bench, configure):
    (text, problem), *others = PROMPTS
    empty = [(text, replace(problem, gold=" ")), *others]
    with pytest.raises(DataError, match=f"problem {problem.id} has an empty reference answer,"):
        bench.run(configure(rl=RL), prompts=empty)
