"""What guides ask for beyond the policy's signals: the tilted reference, and what rows are."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor
from trl.trainer.utils import add_fused_lm_head

from sage_cli.guides.guide import Guide
from sage_cli.guides.guide import ROW_SIGNALS, Known, Signals
from sage_cli.models.signals import tilted_temperature

Batch = dict[str, Any]
Tilted = dict[float, Tensor]
"""Exponent -> log-probabilities (B, T) under the model raised to it and normalised."""


class _Head:
    """A causal LM whose backbone's output is given: TRL's fused head reads nothing else of it."""

    def __init__(self, model: Any) -> None:
        self._model, self.config, self.output = model, model.config, None

    def get_output_embeddings(self) -> Any:
        """Return the model's own head."""
        return self._model.get_output_embeddings()

    def base_model(self, *_: Any, **__: Any) -> Any:
        """Return the backbone's output."""
        return self.output

    model = base_model  # its name before transformers 5, for models of images too

    forward = base_model  # until TRL puts its fused head in this place


@contextmanager
def tilting(
    model: Any,
    exponents: Sequence[float],
    temperature: float,
    tilted: Tilted,
    *,
    in_float32: bool = False,
) -> Iterator[None]:
    """Have each fused pass over `model` leave the tilted log-probabilities of its labels, too.

    softmax(z / T)^phi, normalised, is softmax(phi z / T): TRL's fused head at another temperature,
    on the hidden states of the same pass. `tilted` gets those of all passes, below each other.
    `in_float32` computes logits so, as the trainer does.
    """
    causal = model.get_base_model() if hasattr(model, "get_base_model") else model
    heads = {}
    for exponent in exponents:
        heads[exponent] = _Head(causal)
        add_fused_lm_head(
            heads[exponent],
            temperature=tilted_temperature(temperature, exponent),
            cast_lm_head_to_fp32=in_float32,
        )

    def keep(_module: Any, _inputs: Any, output: Any) -> None:
        for head in heads.values():
            head.output = output

    def score(_module: Any, _inputs: Any, arguments: dict[str, Any], _output: Any) -> None:
        for exponent, head in heads.items():
            # without what a mixture of experts adds to a loss, which nothing reads here
            scored = head.forward(
                labels=arguments["labels"], fused_lm_head=True, output_router_logits=False
            )
            head.output = None
            rows = [tilted[exponent]] if exponent in tilted else []
            tilted[exponent] = torch.cat([*rows, scored.log_probs])

    hooks = (
        causal.base_model.register_forward_hook(keep),
        causal.register_forward_hook(score, with_kwargs=True),
    )
    try:
        yield
    finally:
        for hook in hooks:
            hook.remove()


def whole_texts(batch: Mapping[str, Any]) -> tuple[Tensor, Tensor]:
    """Return ids and mask of prompts with their completions."""
    ids, mask = (
        torch.cat([batch[f"prompt_{name}"], batch[f"completion_{name}"]], dim=1)
        for name in ("ids", "mask")
    )
    return ids, mask


class RowSignals:
    """What anchor and guide may know of rows; `right_PN` are the grades of all processes'."""

    def __init__(self) -> None:
        self._shares: dict[int, float] = {}

    def first_tensors(self, trainer: Any, batch: Batch, right_PN: Tensor) -> Batch:
        """Return the tensors of this process's rows, where each prompt has its first N."""
        prompts_B = trainer.accelerator.gather(batch["prompt_row_B"].to(right_PN.device))
        prompts_P = prompts_B.reshape(right_PN.shape)[:, 0]
        shares_P = right_PN.double().mean(dim=1)
        self._shares = dict(zip(prompts_P.tolist(), shares_P.tolist(), strict=True))
        return self.tensors(trainer, batch, right_PN)

    def tensors(self, trainer: Any, batch: Batch, right_PN: Tensor) -> Batch:
        """Return the tensors of this process's rows; further ones have their prompt's share."""
        rows_B = batch["row_ids_B"].to(right_PN.device)
        rewards_B = trainer.rewards_BF.sum(dim=1)[rows_B]
        shares = [self._shares[prompt] for prompt in batch["prompt_row_B"].tolist()]
        return {
            "right_B": right_PN.flatten()[rows_B].bool(),
            "rewards_B": rewards_B,
            "group_right_B": torch.tensor(shares).to(rewards_B),
        }

    def named(self, trainer: Any, batch: Batch, signals: Signals) -> Signals:
        """Return the signals with the ids of the rows' problems, if the guide asks for them."""
        if "problem_ids_B" not in trainer.guide.needs:
            return signals
        prompts, rows = trainer.hooks.setup.prompts, batch["prompt_row_B"].tolist()
        ids = tuple(prompts[row][1].id for row in rows)
        return replace(signals, optional={**signals.optional, "problem_ids_B": ids})


def tilted_name(exponent: float) -> str:
    """Return the name under which batches carry the reference tilted by `exponent`."""
    return f"tilted_{exponent:g}_BT"


def known_of_rows(guide: Guide, batch: Batch) -> Known:
    """Return what a micro-batch carries: grades, and what depends on them."""
    signals: dict[Any, Any] = {name: batch[name] for name in ROW_SIGNALS if name in batch}
    if "right_B" in batch and "reference_tilted_logps_BT" in guide.needs:
        wrong_BT, right_BT = (
            batch["ref_per_token_logps" if exponent == 1 else tilted_name(exponent)]
            for exponent in guide.exponents
        )
        right_B1 = batch["right_B"][:, None]
        signals["reference_tilted_logps_BT"] = torch.where(right_B1, right_BT, wrong_BT)
    return signals
