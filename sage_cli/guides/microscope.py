"""What a guide did to each token of given completions, and to each completion as a whole."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence

from sage_cli.guides.guide import Guide
from sage_cli.guides.signals import Signals
from sage_cli.guides.statistics import clamped, entropy_percentiles, guide_statistics


@dataclass(frozen=True)
class Examined:
    """One completion of T tokens: surprisal -log pi and entropy in nats, q, and which q is clamped.

    `summary` holds `guide_statistics` and the entropy percentiles over its tokens.
    """

    surprisal_T: tuple[float, ...]
    entropy_T: tuple[float, ...]
    q_T: tuple[float, ...]
    clamped_T: tuple[bool, ...]
    summary: dict[str, float]


@dataclass(frozen=True)
class Examination:
    """Several completions under one guide, and the summary over all their tokens."""

    rows: tuple[Examined, ...]
    summary: dict[str, float]


def examine(
    policy: list[tuple[Tensor, Tensor]],
    guide: Guide,
    step: int,
    read_by_guide: list[tuple[Tensor, Tensor]] | None = None,
) -> Examination:
    """Apply `guide` at its clock's `step` to completions' (logps_T, entropy_T), one pair each.

    `read_by_guide` are the signals that the guide reads where they aren't the policy's. What is
    shown as surprisal and entropy is the policy's in any case.
    """
    log_q_BT = guide.log_q(_signals(read_by_guide or policy), step)
    rows, log_qs = [], []
    for (logps_T, entropy_T), padded_T in zip(policy, log_q_BT, strict=True):
        log_q_T = padded_T[: len(logps_T)]
        log_qs.append(log_q_T)
        rows.append(
            Examined(
                tuple((0 - logps_T).tolist()),
                tuple(entropy_T.tolist()),
                tuple(log_q_T.exp().tolist()),
                tuple(clamped(log_q_T, guide).tolist()),
                _summary(log_q_T, entropy_T, guide),
            )
        )
    everything = _summary(torch.cat(log_qs), torch.cat([entropy for _, entropy in policy]), guide)
    return Examination(tuple(rows), everything)


def _signals(pairs: list[tuple[Tensor, Tensor]]) -> Signals:
    """Rows of unequal length, padded on the right."""
    mask_BT = pad_sequence([torch.ones_like(logps_T) for logps_T, _ in pairs], batch_first=True)
    logps_BT = pad_sequence([logps_T for logps_T, _ in pairs], batch_first=True)
    entropy_BT = pad_sequence([entropy_T for _, entropy_T in pairs], batch_first=True)
    return Signals(logps_BT, entropy_BT, mask_BT, torch.arange(len(pairs)))


def _summary(log_q_T: Tensor, entropy_T: Tensor, guide: Guide) -> dict[str, float]:
    percentiles = {f"entropy_{k}": v for k, v in entropy_percentiles(entropy_T).items()}
    return guide_statistics(log_q_T, guide) | percentiles
