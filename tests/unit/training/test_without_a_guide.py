"""Without a guide our step is TRL's: loss, gradient and metrics equal GRPOTrainer's to the bit.

Both trainers are given the same log-probabilities, entropies and router loss in place of a pass.
Settings are combined so that every two values of two settings meet.
"""

import math
from collections import defaultdict
from itertools import combinations, product

import pytest
import torch
from datasets import Dataset
from trl import GRPOConfig, GRPOTrainer

from sage_cli import GuidedGRPOTrainer
from sage_cli.models.loading import load_model

ROWS, TOKENS, BETA = 4, 6, 0.3
PROMPTS = Dataset.from_list([{"prompt": f"{a}*3=?"} for a in range(2, 6)])
SETTINGS = {
    "loss_type": ("grpo", "bnpo", "dr_grpo", "dapo", "luspo", "cispo", "sapo", "vespo"),
    "importance_sampling_level": ("token", "sequence"),
    "advantages": ("rows", "tokens"),
    "tool_mask": (False, True),
    "top_entropy_quantile": (1.0, 0.4),
    "off_policy_mask_threshold": (None, 0.2),
    "delta": (None, 1.4),
    "use_bias_correction_kl": (False, True),
    "engine": (None, "token", "sequence"),
    "bonus": (None, "constant", "adaptive"),
    "router": (False, True),
    "mode": ("train", "eval"),
    "old": (False, True),
    "images": (False, True),
}
WINDOWS = (3, 3, 2)
"""Micro-batches of three optimiser steps; the last has fewer."""


def pairwise(settings):
    """Combinations in which any two values of any two settings meet, greedily few of them."""
    names = list(settings)
    left = {
        ((a, x), (b, y))
        for a, b in combinations(names, 2)
        for x, y in product(settings[a], settings[b])
    }
    found = []
    while left:
        (a, x), (b, y) = min(left, key=repr)
        chosen = {a: x, b: y}
        for name in names:
            if name not in chosen:
                chosen[name] = max(
                    settings[name],
                    key=lambda value: sum(met(pair, chosen | {name: value}, name) for pair in left),
                )
        left -= {pair for pair in left if all(chosen[key] == value for key, value in pair)}
        found.append(chosen)
    return found


def met(pair, chosen, name):
    """True for a pair that has `name` and holds in what is chosen so far."""
    return any(key == name for key, _ in pair) and all(chosen.get(k, pair) == v for k, v in pair)


@pytest.fixture(scope="module")
def trainers(base, tokenizer, tmp_path_factory):
    """TRL's trainer and ours, of the same policy."""
    folder = tmp_path_factory.mktemp("trainers")

    def build(kind, name):
        args = GRPOConfig(
            str(folder / name),
            beta=BETA,
            use_cpu=True,
            bf16=False,
            num_generations=2,
            per_device_train_batch_size=ROWS,
            steps_per_generation=len(WINDOWS),
            gradient_accumulation_steps=max(WINDOWS),
            report_to="none",
            max_completion_length=9,
        )
        return kind(
            load_model(base),
            lambda completions, **_: [0.0] * len(completions),
            args,
            train_dataset=PROMPTS,
            processing_class=tokenizer,
        )

    return build(GRPOTrainer, "theirs"), build(GuidedGRPOTrainer, "ours")


def micro_batch(chosen, number):
    """A buffered micro-batch and what a pass says of it: leaves with gradient."""
    generator = torch.Generator().manual_seed(number)

    def draw():
        return torch.rand(ROWS, TOKENS, generator=generator)

    logps_BT, entropy_BT = (-3 * draw()).requires_grad_(), (3 * draw()).requires_grad_()
    lengths_B1 = torch.tensor([[6], [3], [1], [5]])
    batch = {
        "prompt_ids": torch.ones(ROWS, 2, dtype=torch.long),
        "prompt_mask": torch.ones(ROWS, 2, dtype=torch.long),
        "completion_ids": torch.ones(ROWS, TOKENS, dtype=torch.long),
        "completion_mask": (torch.arange(TOKENS) < lengths_B1).long(),
        "advantages": torch.tensor([1.2, -0.7, 0.4, -0.9]),
        "ref_per_token_logps": -3 * draw(),
        "num_items_in_batch": torch.tensor(37.0),
        "row_ids_B": torch.tensor([5, 2, 7, 0]),
    }
    if chosen["advantages"] == "tokens":
        batch["advantages"] = batch["advantages"][:, None] + draw() - 0.5
    if chosen["tool_mask"]:
        batch["tool_mask"] = (draw() > 0.3).long()
    old_BT = logps_BT.detach() + draw() - 0.5
    if chosen["old"] or chosen["engine"]:
        batch["old_per_token_logps"] = old_BT
    if chosen["engine"]:
        sampled_BT = old_BT + 0.1 * draw()
        sampled_BT[0, 1] = math.nan  # the engine has none there
        batch["sampling_per_token_logps"] = sampled_BT
        apart_BT = (old_BT - sampled_BT).nan_to_num(0.0) * batch["completion_mask"]
        by_row = chosen["engine"] == "sequence"
        batch["importance_sampling_ratio"] = (
            apart_BT.sum(dim=1, keepdim=True) if by_row else apart_BT
        ).exp()
    if chosen["images"]:
        batch |= {"pixel_values": torch.rand(ROWS, 3, 2, 2), "num_images": [1] * ROWS}
    router = torch.tensor(0.7, requires_grad=True)
    return batch, (logps_BT, entropy_BT, router)


def set_up(trainer, chosen):
    """Settings that TRL's loss reads, in a trainer that has no state of an earlier step."""
    for name in (
        "loss_type",
        "importance_sampling_level",
        "top_entropy_quantile",
        "off_policy_mask_threshold",
    ):
        setattr(trainer, name, chosen[name])
    trainer.args.delta = chosen["delta"]
    trainer.args.use_bias_correction_kl = chosen["use_bias_correction_kl"]
    trainer.use_vllm = trainer.vllm_importance_sampling_correction = bool(chosen["engine"])
    trainer.epsilon_high = 5.0 if chosen["loss_type"] == "cispo" else 0.28
    trainer.aux_loss_enabled, trainer.router_aux_loss_coef = chosen["router"], 0.1
    trainer.use_adaptive_entropy = chosen["bonus"] == "adaptive"
    trainer._entropy_bonus_enabled = chosen["bonus"] is not None
    trainer.entropy_coef, trainer._entropy_window_stats = 0.2, None
    trainer._last_world_entropy, trainer.args.entropy_target = 0.0, 1.5
    trainer._metrics = {"train": defaultdict(list), "eval": defaultdict(list)}
    trainer.model.train(chosen["mode"] == "train")


def losses(trainer, chosen, monkeypatch):
    """What three steps say: losses, gradients of what the passes gave, what they were asked for."""
    set_up(trainer, chosen)
    found, asked, number = [], [], 0
    for window in WINDOWS:
        trainer.current_gradient_accumulation_steps = window
        for place in range(window):
            batch, said = micro_batch(chosen, number)
            number += 1

            def answer(self, model, *texts, said=said, **named):
                asked.append((len(texts), sorted(k for k, v in named.items() if v is not None)))
                return said if named.get("compute_aux_loss") else (*said[:2], None)

            monkeypatch.setattr(GRPOTrainer, "_get_per_token_logps_and_entropies", answer)
            trainer.accelerator.gradient_state._set_sync_gradients(place == window - 1)
            loss = trainer._compute_loss(trainer.model, batch)
            gradients = torch.autograd.grad(loss, said, allow_unused=True)
            found.append((loss.detach(), *gradients))
    trainer.accelerator.gradient_state._set_sync_gradients(True)
    return found, asked, {mode: dict(values) for mode, values in trainer._metrics.items()}


@pytest.mark.parametrize("chosen", pairwise(SETTINGS), ids=lambda c: "-".join(map(str, c.values())))
def test_loss_gradient_and_metrics_are_trls(trainers, chosen, monkeypatch):
    (theirs, asked, metrics), (ours, asked_of_us, ours_metrics) = (
        losses(trainer, chosen, monkeypatch) for trainer in trainers
    )
    assert asked_of_us == asked
    for step, other in zip(ours, theirs, strict=True):
        for mine, value in zip(step, other, strict=True):
            assert (mine is None) == (value is None)
            assert mine is None or torch.equal(mine, value)
    assert repr(ours_metrics) == repr(metrics)  # NaN equals NaN
    assert any(gradient is not None and gradient.abs().sum() > 0 for gradient in theirs[0][1:])


def test_all_pairs_are_there():
    combined = pairwise(SETTINGS)
    assert len(combined) < 60
    for (a, values), (b, others) in combinations(SETTINGS.items(), 2):
        there = {(chosen[a], chosen[b]) for chosen in combined}
        assert there == set(product(values, others)), (a, b)
