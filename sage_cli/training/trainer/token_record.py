"""Signals of all completion tokens of one optimiser step, gathered and summed up."""

from __future__ import annotations

import math
from collections import defaultdict
from typing import Any

import torch
from torch import Tensor

from sage_cli.guides import Guide, NoGuide
from sage_cli.guides.token_values import entropy_percentiles, guide_statistics
from sage_cli.objectives import k3, log_ratio

_NOISE = 1e-9
"""Nats a token below which a divergence is rounding: before the first update there is none."""


class TokenRecord:
    """Flat per-token signals, so that statistics depend on neither micro-batches nor processes."""

    def __init__(self) -> None:
        self._parts: defaultdict[str, list[Tensor]] = defaultdict(list)

    def add(self, mask_BT: Tensor, **signals_BT: Tensor) -> None:
        """Keep the unmasked tokens of a micro-batch, by the signals' names."""
        chosen_BT = mask_BT.bool()
        for name, values_BT in signals_BT.items():
            self._parts[name].append(values_BT[chosen_BT])

    def drain(self, accelerator: Any) -> dict[str, Tensor]:
        """The step's signals over all processes, in double precision on the CPU; then empty.

        The main process has them; of the others each gets none.
        """
        flat = {name: torch.cat(parts) for name, parts in sorted(self._parts.items())}
        self._parts.clear()
        if accelerator.num_processes > 1:
            flat = {name: _gather(values_T, accelerator) for name, values_T in flat.items()}
        return {name: values_T.cpu().double() for name, values_T in flat.items()}


def token_statistics(signals: dict[str, Tensor], guide: Guide) -> dict[str, float]:
    """Entropy, the divergences from the reference and from the anchor, and what q did.

    `kl/reference` is the mean of log pi - log pi_ref on the samples (Eq. 1), `kl/shaped` the same
    less log q (Eq. 5), `kl/k3` the mean of TRL's own estimator (Eq. 38). Under the estimator `head`
    `kl/head` is the mean of what the loss has in k3's place, and `anchor/head_mass` of the
    policy's probability of the head.
    """
    entropy_T = signals.get("entropy", torch.empty(0))
    found = {"entropy": entropy_T.mean().item() if len(entropy_T) else math.nan}
    found |= {f"entropy/{name}": value for name, value in entropy_percentiles(entropy_T).items()}
    if "reference" not in signals:
        return found
    logps_T, reference_T, log_q_T = (signals[name] for name in ("logps", "reference", "log_q"))
    found["kl/reference"] = log_ratio(logps_T, reference_T).mean().item()
    found["kl/shaped"] = log_ratio(logps_T, reference_T, log_q_T).mean().item()
    k3_T = k3(logps_T, reference_T, log_q_T)
    found["kl/k3"] = k3_T.mean().item()
    if "head" in signals:
        found["kl/head"] = signals["head"].mean().item()
        found["anchor/head_mass"] = signals["head_mass"].mean().item()
    found |= _shares_of_rows(k3_T, signals["held"], signals.get("equal"))
    if not isinstance(guide, NoGuide):
        found |= {f"guide/{k}": v for k, v in guide_statistics(log_q_T, guide).items()}
    return found


def _shares_of_rows(k3_T: Tensor, held_T: Tensor, equal_T: Tensor | None) -> dict[str, float]:
    """The share of the KL term, by k3, in groups of equal grades, and of tokens that it acts on."""
    found, term_T = {"anchor/rows": held_T.mean().item()}, k3_T * held_T
    if equal_T is not None and term_T.sum() > _NOISE * len(term_T):
        found["anchor/equal_groups"] = ((term_T * equal_T).sum() / term_T.sum()).item()
    return found


def _gather(values_T: Tensor, accelerator: Any) -> Tensor:
    """Values of unequal count from all processes, in their order, in the main one; else none."""
    counts = accelerator.gather(torch.tensor([len(values_T)], device=accelerator.device)).tolist()
    padded_T = accelerator.pad_across_processes(values_T, dim=0)
    if not accelerator.is_main_process:
        torch.distributed.gather(padded_T)
        return values_T[:0]
    rows = [torch.empty_like(padded_T) for _ in counts]
    torch.distributed.gather(padded_T, rows)
    return torch.cat([row[:count] for row, count in zip(rows, counts, strict=True)])
