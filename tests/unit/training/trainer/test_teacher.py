"""A teacher beside policy and reference, in real trainings and against double precision."""

from __future__ import annotations

import copy
from typing import Any

import pytest
import torch
from safetensors.torch import load_file
from toy_policy import adapted

from sage_cli.models.load import load_model

BETA, TEMPERATURE = 0.3, 0.7
FILE = "model/model.safetensors"


def moved(bench: Any, seed: int, scale: float = 0.05) -> Any:
    """Return the toy policy some way from the reference, another way for each seed."""
    model = load_model(bench.base, trainable=True)
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for weights in model.parameters():
            weights.mul_(1 + scale * torch.randn(weights.shape, generator=generator))
    return model


def of_tokens(model: Any, batch: dict[str, Any]) -> torch.Tensor:
    """Return float64 log-probabilities (B, T) of the completions' tokens."""
    ids, mask = (
        torch.cat([batch[f"prompt_{name}"], batch[f"completion_{name}"]], dim=1)
        for name in ("ids", "mask")
    )
    tokens = batch["completion_ids"].shape[1]
    logits_BTV = model(input_ids=ids, attention_mask=mask, use_cache=False).logits
    logps_BTV = (logits_BTV[:, -tokens - 1 : -1] / TEMPERATURE).log_softmax(dim=-1)
    return logps_BTV.gather(2, batch["completion_ids"][..., None])[..., 0]


@pytest.mark.parametrize("tuned", ["full", "adapter"])
def test_loss_and_gradient_equal_the_formulas_in_double_precision(
    bench: Any, configure: Any, tuned: str
):
    policy = moved(bench, 3)
    if tuned == "adapter":
        teacher = adapted(bench, configure(model={"kind": "pretrained", "tuning": "lora"}))
    else:
        teacher = moved(bench, 4)
    # before TRL gives them other forwards, and as the trainer uses them: without dropout
    own, taught = (copy.deepcopy(model).double().eval() for model in (policy, teacher))
    config = configure(
        guide={"name": "teacher", "teacher": "it", "share": 0.4, "q_max": 5.0},
        rl={"loss": "grpo"},
        rollout={"temperature": TEMPERATURE},
        anchor={"beta": BETA},
    )
    trainer = bench.trainer(config, model=policy, teacher=teacher)
    trainer.state.global_step = 1
    trainer.current_gradient_accumulation_steps = 1
    trainer.model.train()
    rows = [row for row in list(trainer.train_dataset)[:4] for _ in range(4)]
    batch = trainer._generate_and_score_completions(rows)
    trainer.model.zero_grad()
    loss = trainer._compute_loss(trainer.model, batch)
    loss.backward()

    mask_BT = batch["completion_mask"]
    with torch.no_grad():
        reference_BT = of_tokens(load_model(bench.base).double(), batch)
        teacher_BT = of_tokens(taught, batch)
        log_q_BT = (0.4 * (teacher_BT - reference_BT)).exp().clamp(0.1, 5).log()
    found_BT = batch["teacher_logps_BT"].double()
    torch.testing.assert_close(found_BT * mask_BT, teacher_BT * mask_BT, atol=1e-4, rtol=0)
    logps_BT = of_tokens(own, batch)
    d_BT = reference_BT + log_q_BT - logps_BT
    ratio_BT = (logps_BT - logps_BT.detach()).exp()
    term_BT = -ratio_BT * batch["advantages"][:, None] + BETA * (d_BT.exp() - d_BT - 1)
    expected = ((term_BT * mask_BT).sum(dim=1) / mask_BT.sum(dim=1)).mean()
    expected.backward()
    assert loss.item() == pytest.approx(expected.item(), abs=1e-5, rel=1e-5)
    for ours, other in zip(trainer.model.parameters(), own.parameters(), strict=True):
        scale = other.grad.abs().max().item()
        torch.testing.assert_close(ours.grad.double(), other.grad, atol=1e-5 * scale + 1e-9, rtol=0)
    assert all(weights.grad is None for weights in teacher.parameters())


def test_no_share_trains_as_without_a_guide_and_the_reference_teaches_nothing(
    bench: Any, configure: Any
):
    def comparable(records: list[dict[str, Any]]) -> list[dict[str, Any]]:
        skipped = ("time/", "memory/", "guide/")
        return [{k: v for k, v in r.items() if not k.startswith(skipped)} for r in records]

    plain = bench.run(configure(), "plain")
    guide = {"name": "teacher", "teacher": "it"}
    none = configure(guide=guide | {"share": 0.0})
    assert comparable(bench.run(none, "none", teacher=moved(bench, 4))) == comparable(plain)
    itself = bench.run(configure(guide=guide), "itself", teacher=load_model(bench.base))
    assert itself[-1]["guide/q_mean"] == pytest.approx(1, abs=1e-5)
    assert itself[-1]["loss"] == pytest.approx(plain[-1]["loss"], abs=1e-5)
    other = bench.run(configure(guide=guide), "other", teacher=moved(bench, 4))
    assert comparable(other) != comparable(plain)


def test_a_resumed_training_sees_the_same_teacher(bench: Any, configure: Any):
    config = configure(guide={"name": "teacher", "teacher": "it"}, rl={"steps": 3, "save_every": 1})

    def killed(record: dict[str, Any]) -> None:
        if record["step"] == 2:
            raise RuntimeError("killed")

    bench.run(config, "whole", teacher=moved(bench, 4))
    with pytest.raises(RuntimeError, match="killed"):
        bench.run(config, "torn", on_step=killed, teacher=moved(bench, 4))
    bench.run(config, "torn", teacher=moved(bench, 4))
    whole, torn = (load_file(bench.folder / name / FILE) for name in ("whole", "torn"))
    assert all(torch.equal(whole[name], torn[name]) for name in whole)


def test_small_micro_batches_see_the_same_teacher(bench: Any, configure: Any):
    guide = {"name": "teacher", "teacher": "it"}
    whole, small = (
        bench.run(
            configure(guide=guide, rl={"steps": 2, "micro_batch": micro}),
            f"micro-{micro}",
            teacher=moved(bench, 4, 0.5),
        )
        for micro in (16, 4)
    )
    for one, other in zip(whole, small, strict=True):
        for key in ("loss", "kl/shaped", "guide/log_q", "grad_norm"):
            assert one[key] == pytest.approx(other[key], abs=2e-5, rel=2e-5)
