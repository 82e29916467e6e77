"""A scored batch of the toy policy, and its log-probabilities in double precision."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from sage_cli.models.loading import load_model

TEMPERATURE = 0.7


def moved(bench: Any) -> Any:
    """Return the toy policy some way from its reference."""
    model = load_model(bench.base, trainable=True)
    generator = torch.Generator().manual_seed(3)
    with torch.no_grad():
        for weights in model.parameters():
            weights.mul_(1 + 0.05 * torch.randn(weights.shape, generator=generator))
    return model


def generated(trainer: Any) -> dict[str, Any]:
    rows = [row for row in list(trainer.train_dataset)[:4] for _ in range(4)]
    batch: dict[str, Any] = trainer._generate_and_score_completions(rows)
    return batch


def log_probabilities(model: Any, batch: dict[str, Any]) -> Tensor:
    """Return float64 log-probabilities (B, T, V) where the completions' tokens are predicted."""
    ids, mask = (
        torch.cat([batch[f"prompt_{name}"], batch[f"completion_{name}"]], dim=1)
        for name in ("ids", "mask")
    )
    tokens = batch["completion_ids"].shape[1]
    logits_BTV = model(input_ids=ids, attention_mask=mask, use_cache=False).logits
    return (logits_BTV[:, -tokens - 1 : -1] / TEMPERATURE).log_softmax(dim=-1)


def of_tokens(logps_BTV: Tensor, batch: dict[str, Any]) -> Tensor:
    return logps_BTV.gather(2, batch["completion_ids"][..., None])[..., 0]


def prepared(
    bench: Any,
    configure: Any,
    *,
    guide: dict[str, Any],
    anchor: dict[str, Any],
    rl: dict[str, Any] | None = None,
    section: dict[str, Any] | None = None,
    **further: Any,
) -> Any:
    """Return a trainer past its first step; `section` are settings of the model."""
    config = configure(
        guide=guide,
        rl={"loss": "grpo", **(rl or {})},
        rollout={"temperature": TEMPERATURE, "min_p": 0.0},
        anchor=anchor,
        model=section or {},
    )
    trainer = bench.trainer(config, **further)
    trainer.state.global_step = 1
    trainer.current_gradient_accumulation_steps = 1
    trainer.model.train()
    return trainer
