"""What a guide did to each token of given completions, and to each completion as a whole."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence

from sage_cli.errors import TrainingError
from sage_cli.guides.guide import Guide
from sage_cli.guides.signals import OptionalSignal, Signals
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


Pair = tuple[Tensor, Tensor]
"""(logps_T, entropy_T) of a completion's tokens under one model."""


def examine(
    policy: list[Pair],
    guide: Guide,
    step: int,
    reference: list[Pair] | None = None,
    token_ids: list[list[int]] | None = None,
) -> Examination:
    """Apply `guide` at its clock's `step` to completions, of which `policy` holds the signals.

    `reference` and `token_ids` are for a guide that reads them. What is shown as surprisal and
    entropy is the policy's in any case. Raises TrainingError where the guide needs what isn't
    given.
    """
    log_q_BT = guide.log_q(_signals(guide, policy, reference, token_ids), step)
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


def _signals(
    guide: Guide,
    policy: list[Pair],
    reference: list[Pair] | None,
    token_ids: list[list[int]] | None,
) -> Signals:
    """Rows of unequal length, padded on the right; whatever there is of what may be asked for."""
    optional: dict[OptionalSignal, Tensor] = {}
    optional["policy_logps_BT"], optional["policy_entropy_BT"] = _padded(policy)
    if reference is not None:
        optional["reference_logps_BT"], optional["reference_entropy_BT"] = _padded(reference)
    if token_ids is not None:
        rows = [torch.tensor(ids, dtype=torch.long) for ids in token_ids]
        optional["token_ids_BT"] = pad_sequence(rows, batch_first=True)
    logps_BT, entropy_BT = _padded(_read_by(guide, policy, reference))
    lengths_B1 = torch.tensor([[len(logps_T)] for logps_T, _ in policy])
    mask_BT = (torch.arange(logps_BT.shape[1]) < lengths_B1).to(logps_BT)
    return Signals(logps_BT, entropy_BT, mask_BT, torch.arange(len(policy)), optional)


def _read_by(guide: Guide, policy: list[Pair], reference: list[Pair] | None) -> list[Pair]:
    if guide.signal == "policy":
        return policy
    if reference is None:
        raise TrainingError(
            "the guide reads the reference's signals, and there is no reference",
            "use --set guide.signal=policy",
        )
    return reference


def _padded(pairs: list[Pair]) -> tuple[Tensor, Tensor]:
    logps_BT = pad_sequence([logps_T for logps_T, _ in pairs], batch_first=True)
    entropy_BT = pad_sequence([entropy_T for _, entropy_T in pairs], batch_first=True)
    return logps_BT, entropy_BT


def _summary(log_q_T: Tensor, entropy_T: Tensor, guide: Guide) -> dict[str, float]:
    percentiles = {f"entropy_{k}": v for k, v in entropy_percentiles(entropy_T).items()}
    return guide_statistics(log_q_T, guide) | percentiles
