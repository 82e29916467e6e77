"""What the tokens of a step say: entropy, KL, q, clipping, the engine's mismatch."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

from sage_cli.guides import Guide, NoGuide
from sage_cli.guides.divergences import k3, log_ratio
from sage_cli.guides.guide import require_finite
from sage_cli.guides.token_values import (
    entropy_percentiles,
    guide_statistics,
    ratio_of_sums,
    share_of_largest,
    weighted_q,
)


@dataclass
class TokenRecord:
    """Flat per-token signals, so that statistics depend on neither micro-batches nor processes."""

    _parts: list[tuple[Tensor, dict[str, Tensor]]] = field(default_factory=list)

    def add(self, mask_BT: Tensor, **signals_BT: Tensor) -> None:
        """Keep a micro-batch's signals by name, of which `drain` returns the unmasked tokens."""
        detached = {name: values_BT.detach() for name, values_BT in signals_BT.items()}
        self._parts.append((mask_BT, detached))

    def drain(self, accelerator: Any) -> dict[str, Tensor]:
        """Return the step's signals over all processes, in double precision on the CPU; then empty.

        The main process has them; of the others each gets none.
        """
        parts, self._parts = self._parts, []
        tensors = [t_BT.flatten() for mask_BT, part in parts for t_BT in (mask_BT, *part.values())]
        if not tensors:
            return {}
        # choosing tokens by a mask waits for the device, so everything is fetched by one wait first
        fetched = iter(torch.split(torch.cat(tensors).cpu(), [len(values) for values in tensors]))
        tokens: defaultdict[str, list[Tensor]] = defaultdict(list)
        for _, part in parts:
            chosen = next(fetched).bool()
            for name in part:
                tokens[name].append(next(fetched)[chosen])
        flat = {name: torch.cat(values) for name, values in sorted(tokens.items())}
        if accelerator.num_processes > 1:
            flat = _gather(flat, accelerator)
        return {name: values_T.double() for name, values_T in flat.items()}


def token_statistics(signals: dict[str, Tensor], guide: Guide) -> dict[str, float | None]:
    """Return entropy, the divergences from the reference and from the anchor, and what q did.

    `kl/reference` is the mean of log pi - log pi_ref on the samples (Eq. 1), `kl/shaped` the same
    less log q (Eq. 5), `kl/k3` the mean of TRL's own estimator (Eq. 38), `kl/k3_reference` the same
    without log q, of which ten tokens have the share `kl/k3_top10`. Under the estimator `head`
    `kl/head` is the mean of what the loss has in k3's place, and `anchor/head_mass` of the
    policy's probability of the head. Raises TrainingError if the guide's q is not finite.
    """
    entropy_T = signals.get("entropy", torch.empty(0))
    entropy = entropy_T.mean().item() if len(entropy_T) else math.nan
    record: dict[str, float | None] = {"entropy": entropy}
    record |= {f"entropy/{name}": value for name, value in entropy_percentiles(entropy_T).items()}
    if "reference" not in signals:
        return record
    logps_T, reference_T, log_q_T = (signals[name] for name in ("logps", "reference", "log_q"))
    require_finite(guide, log_q_T, (logps_T, reference_T, entropy_T))
    record["kl/reference"] = log_ratio(logps_T, reference_T).mean().item()
    record["kl/shaped"] = log_ratio(logps_T, reference_T, log_q_T).mean().item()
    k3_T = k3(logps_T, reference_T, log_q_T)
    record["kl/k3"] = k3_T.mean().item()
    unguided_T, held_T = k3(logps_T, reference_T), signals["held"]
    record["kl/k3_reference"] = unguided_T.mean().item()
    record["kl/k3_top10"] = share_of_largest(unguided_T, held_T)
    if "head" in signals:
        record["kl/head"] = signals["head"].mean().item()
        record["anchor/head_mass"] = signals["head_mass"].mean().item()
    record["anchor/rows"] = held_T.mean().item()
    if "equal" in signals:
        # of the KL term, by k3, the share in groups of equal grades
        term_T = k3_T * held_T
        share = ratio_of_sums(term_T * signals["equal"], term_T)
        record |= {} if share is None else {"anchor/equal_groups": share}
    if not isinstance(guide, NoGuide):
        weighted = weighted_q(log_q_T, entropy_T, unguided_T, held_T)
        record |= {
            f"guide/{k}": v for k, v in {**guide_statistics(log_q_T, guide), **weighted}.items()
        }
    return record


def _gather(signals: dict[str, Tensor], accelerator: Any) -> dict[str, Tensor]:
    """Return all processes' signals, of unequal count, in the main one; none in the others."""
    device, values = accelerator.device, list(signals.values())
    counts = accelerator.gather(torch.tensor([[*map(len, values)]], device=device)).tolist()
    padded_T = accelerator.pad_across_processes(torch.cat(values).to(device), dim=0)
    if not accelerator.is_main_process:
        torch.distributed.gather(padded_T)
        return {name: values_T[:0] for name, values_T in signals.items()}
    rows = [torch.empty_like(padded_T) for _ in counts]
    torch.distributed.gather(padded_T, rows)
    fetched = [
        torch.split(row.cpu()[: sum(count)], count) for row, count in zip(rows, counts, strict=True)
    ]
    return {name: torch.cat(part) for name, *part in zip(signals, *fetched, strict=True)}


CLIPPING_LOSSES = ("grpo", "bnpo", "dr_grpo", "dapo", "luspo")
"""The losses of TRL that clip the ratio on both sides."""


def add_clipped(
    tokens: TokenRecord,
    mask_BT: Tensor,
    log_ratio_BT: Tensor,
    advantages: Tensor,
    clip: tuple[float, float],
    *,
    whole: bool,
) -> None:
    """Keep where a micro-batch's loss clips the ratio of tokens, or with `whole` of completions.

    `advantages` are (B,) or (B, T), `clip` the distances from 1 on either side. TRL's own share is
    a mean over micro-batches, so it depends on which rows share one; the share of all that is kept
    here doesn't.
    """
    advantages_BT = advantages if advantages.dim() == 2 else advantages[:, None]
    if whole:
        counts_B1 = mask_BT.sum(dim=1, keepdim=True).clamp(min=1)
        log_ratio_BT = (log_ratio_BT * mask_BT).sum(dim=1, keepdim=True) / counts_B1
    ratio_BT, (low, high) = log_ratio_BT.exp(), clip
    below_BT = (ratio_BT < 1 - low) & (advantages_BT < 0)
    clipped_BT = below_BT | ((ratio_BT > 1 + high) & (advantages_BT > 0))
    counted_BT = mask_BT if clipped_BT.shape == mask_BT.shape else torch.ones_like(clipped_BT)
    tokens.add(counted_BT, clipped=clipped_BT.to(log_ratio_BT))


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
    """Return differences, ratios before they are cut, and the engine's divergence.

    The ratios are those that weigh the loss: of tokens, or of completions where those are known.
    `cap` is their upper end, None where nothing is weighed.
    """
    log_ratio_T = signals["mismatch"]
    ratio = signals.get("mismatch_whole", log_ratio_T).exp()
    zero_T = torch.zeros_like(log_ratio_T)
    record = {
        "mismatch/difference_mean": log_ratio_T.abs().mean().item(),
        "mismatch/difference_max": log_ratio_T.abs().max().item(),
        "mismatch/ratio_min": ratio.min().item(),
        "mismatch/ratio_mean": ratio.mean().item(),
        "mismatch/ratio_max": ratio.max().item(),
        "mismatch/kl": k3(zero_T, log_ratio_T).mean().item(),
    }
    return (
        record if cap is None else record | {"mismatch/cut": (ratio > cap).double().mean().item()}
    )
