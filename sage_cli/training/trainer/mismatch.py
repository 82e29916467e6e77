"""Mismatch between the trainer's probabilities and those of the rollout engine."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor
from transformers import (
    LogitsProcessorList,
    MinPLogitsWarper,
    TopKLogitsWarper,
    TopPLogitsWarper,
)

from sage_cli.objectives import k3
from sage_cli.training.trainer.token_record import TokenRecord

PLACES = 256
"""Tokens of a process at which the kept mass is measured: logits of all would fill a GPU."""


def add_mismatch(
    tokens: TokenRecord, batch: Mapping[str, Any], logps_BT: Tensor, *, whole: bool
) -> None:
    """Keep a micro-batch's log-ratios pi_old / pi_engine; `whole`: also of each completion.

    `logps_BT` are the policy's now, which sampled the batch where it carries no older ones. Tokens
    without a log-probability of the engine (NaN) are left out.
    """
    old_BT = batch.get("old_per_token_logps", logps_BT)
    log_ratio_BT = old_BT - batch["sampling_per_token_logps"]
    known_BT = batch["completion_mask"].bool() & ~log_ratio_BT.isnan()
    tokens.add(known_BT, mismatch=log_ratio_BT)
    if whole:
        sum_B1 = log_ratio_BT.where(known_BT, 0).sum(dim=1, keepdim=True)
        tokens.add(torch.ones_like(sum_B1), mismatch_whole=sum_B1)


def mismatch_statistics(signals: Mapping[str, Tensor], cap: float | None) -> dict[str, float]:
    """Differences, ratios before they are cut, and the engine's divergence from the trainer.

    The ratios are those that weigh the loss: of tokens, or of completions where those are known.
    `cap` is their upper end, None where nothing is weighed. Empty without an engine's
    log-probabilities.
    """
    log_ratio_T = signals.get("mismatch", torch.empty(0))
    if not len(log_ratio_T):
        return {}
    ratio = signals.get("mismatch_whole", log_ratio_T).exp()
    zero_T = torch.zeros_like(log_ratio_T)
    found = {
        "mismatch/difference_mean": log_ratio_T.abs().mean().item(),
        "mismatch/difference_max": log_ratio_T.abs().max().item(),
        "mismatch/ratio_min": ratio.min().item(),
        "mismatch/ratio_mean": ratio.mean().item(),
        "mismatch/ratio_max": ratio.max().item(),
        "mismatch/kl": k3(zero_T, log_ratio_T).mean().item(),
    }
    return found if cap is None else found | {"mismatch/cut": (ratio > cap).double().mean().item()}


@torch.no_grad()
def kept_mass_record(trainer: Any, batch: Mapping[str, Any]) -> dict[str, float]:
    """`mismatch/kept_mass`: the mean over some tokens of all processes, where tokens are left out.

    The tokens are evenly spaced in the first micro-batch, from a place that moves with the step.
    """
    keep = truncation(trainer.min_p, trainer.top_k, trainer.top_p)
    if "sampling_per_token_logps" not in batch or not keep:
        return {}
    rows = slice(trainer.args.per_device_train_batch_size)
    ids, mask = (
        torch.cat([batch[f"prompt_{name}"], batch[f"completion_{name}"]], dim=1)[rows]
        for name in ("ids", "mask")
    )
    mask_BT, prompt = batch["completion_mask"][rows], batch["prompt_ids"].shape[1]
    stride = -(-mask_BT.numel() // PLACES)
    places = torch.arange(trainer.state.global_step % stride, mask_BT.shape[1], stride)
    places = places.to(ids.device)
    with trainer.accelerator.autocast():
        found = trainer.model(
            input_ids=ids,
            attention_mask=mask,
            logits_to_keep=prompt - 1 + places,  # a token's logits stand one place before it
            use_cache=False,
        )
    logits = found.logits[mask_BT[:, places].bool()].float() / trainer.temperature
    mass = kept_mass(logits, keep)
    sums = torch.stack([mass.sum(), torch.tensor(float(len(mass)), device=mass.device)])
    total, count = trainer.accelerator.reduce(sums, reduction="sum").tolist()
    return {"mismatch/kept_mass": total / count} if count else {}


def truncation(min_p: float | None, top_k: int, top_p: float) -> LogitsProcessorList:
    """Return the settings that exclude tokens, in vLLM's order."""
    return LogitsProcessorList(
        [
            *([MinPLogitsWarper(min_p)] if min_p else []),
            *([TopKLogitsWarper(top_k)] if top_k else []),
            *([TopPLogitsWarper(top_p)] if top_p < 1 else []),
        ]
    )


def kept_mass(logits_TV: Tensor, keep: LogitsProcessorList) -> Tensor:
    """The probability (T,) of the tokens that are kept, of logits at the rollouts' temperature."""
    kept_TV = keep(None, logits_TV.clone()) > -torch.inf
    mass_T: Tensor = logits_TV.softmax(dim=-1).where(kept_TV, 0).sum(dim=-1)
    return mass_T
