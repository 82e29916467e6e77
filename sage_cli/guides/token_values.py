"""Values of a guide: per token of given completions, and as statistics over many tokens."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence

from sage_cli.errors import TrainingError
from sage_cli.guides.guide import Guide, Known, Signals

PERCENTILES = (50, 75, 90, 95, 99)
LARGEST = 10
_ROUNDING = 1e-9
"""Nats a token below which a divergence is rounding: before the first update there is none."""
_Pair = tuple[Tensor, Tensor]
"""(logps_T, entropy_T) of a completion's tokens under one model."""


@dataclass(frozen=True)
class TokenValues:
    """One completion of T tokens: surprisal -log pi and entropy in nats, q, and which q is clamped.

    `summary` holds `guide_statistics` and the entropy percentiles over its tokens.
    """

    surprisal_T: tuple[float, ...]
    entropy_T: tuple[float, ...]
    q_T: tuple[float, ...]
    clamped_T: tuple[bool, ...]
    summary: dict[str, float]


def token_values(
    policy: list[_Pair],
    guide: Guide,
    step: int,
    reference: list[_Pair] | None = None,
    token_ids: list[list[int]] | None = None,
    others: Known | None = None,
) -> tuple[tuple[TokenValues, ...], dict[str, float]]:
    """Apply `guide` at its clock's `step`; return each completion's values and their summary.

    `policy` holds the completions' signals; surprisal and entropy are the policy's in any case.
    `reference`, `token_ids` and `others`, other optional signals, are for a guide that reads them.
    Raises TrainingError if the guide needs one that is not given.
    """
    log_q_BT = guide.log_q(_signals(guide, policy, reference, token_ids, others or {}), step)
    # without the padding
    log_qs = [log_q_T[: len(signals[0])] for signals, log_q_T in zip(policy, log_q_BT, strict=True)]
    rows = tuple(
        TokenValues(
            surprisal_T=tuple((0 - logps_T).tolist()),
            entropy_T=tuple(entropy_T.tolist()),
            q_T=tuple(log_q_T.exp().tolist()),
            clamped_T=tuple(clamped(log_q_T, guide).tolist()),
            summary=_summary(log_q_T, entropy_T, guide),
        )
        for (logps_T, entropy_T), log_q_T in zip(policy, log_qs, strict=True)
    )
    entropy_T = torch.cat([entropy_T for _, entropy_T in policy])
    return rows, _summary(torch.cat(log_qs), entropy_T, guide)


def guide_statistics(log_q_T: Tensor, guide: Guide) -> dict[str, float]:
    """Return mean, minimum and maximum of q, shares of tokens shaped and clamped, mean log q.

    `log_q_T` holds the tokens of all completions, flat. The mean log q is what the guide gives
    back of the KL (Eq. 8). Without a token everything is NaN.
    """
    log_q_T = log_q_T.double()
    if not len(log_q_T):
        return dict.fromkeys(("q_mean", "q_min", "q_max", "shaped", "clamped", "log_q"), math.nan)
    q_T = log_q_T.exp()
    return {
        "q_mean": q_T.mean().item(),
        "q_min": q_T.min().item(),
        "q_max": q_T.max().item(),
        "shaped": (log_q_T != 0).double().mean().item(),
        "clamped": clamped(log_q_T, guide).double().mean().item(),
        "log_q": log_q_T.mean().item(),
    }


def weighted_q(
    log_q_T: Tensor, entropy_T: Tensor, unguided_T: Tensor, held_T: Tensor
) -> dict[str, float | None]:
    """Return q averaged with the weights of the KL term without the guide, and of entropy.

    All are flat over the tokens of a step, in double precision. `unguided_T` is k3 without log q:
    with it the weights are above 0 where the policy has not moved, largest where q is, and the mean
    could never say that the guide finds nothing to act on. `held_T` is 1 on the tokens that the
    term acts on, else 0. A mean is None where its weights' sum is 0, or only rounding.
    """
    weights = {"q_kl_mean": unguided_T * held_T, "q_entropy_mean": entropy_T * held_T}
    return {name: ratio_of_sums(log_q_T.exp() * w_T, w_T) for name, w_T in weights.items()}


def share_of_largest(unguided_T: Tensor, held_T: Tensor) -> float | None:
    """Return the share of the ten largest values in the sum over held tokens; None if that is 0.

    Near 1 a mean weighted by these values says what ten tokens do, and nothing about the others.
    """
    values_T = unguided_T * held_T
    return ratio_of_sums(values_T.topk(min(LARGEST, len(values_T))).values, values_T)


def ratio_of_sums(part_T: Tensor, whole_T: Tensor) -> float | None:
    """Return the ratio of two sums over tokens; None where the whole is no more than rounding."""
    whole = whole_T.sum()
    return (part_T.sum() / whole).item() if whole > _ROUNDING * len(whole_T) else None


def clamped(log_q: Tensor, guide: Guide) -> Tensor:
    """Return which of the shaped tokens are at an end of the guide's clamp; any shape."""
    q, slack = log_q.double().exp(), 1e-6
    at_an_end: Tensor = (q >= guide.q_max - slack) | (q <= guide.q_min + slack)
    return at_an_end & (log_q != 0)


def entropy_percentiles(entropy_T: Tensor) -> dict[str, float]:
    """Return percentiles of token entropies in nats, by which a threshold tau can be chosen."""
    if not len(entropy_T):
        return {f"p{percent}": math.nan for percent in PERCENTILES}
    positions = torch.tensor(PERCENTILES, dtype=torch.float64) / 100 * (len(entropy_T) - 1)
    low, high = positions.floor().long(), positions.ceil().long()
    # a step has tens of millions of tokens, of which ten ranks are needed: sorting takes seconds
    ranked = np.partition(entropy_T.cpu().numpy(), np.unique(torch.cat([low, high]).numpy()))
    ranked_T = torch.from_numpy(ranked).double()
    values = torch.lerp(ranked_T[low], ranked_T[high], positions - low)
    return {
        f"p{percent}": value for percent, value in zip(PERCENTILES, values.tolist(), strict=True)
    }


def _signals(
    guide: Guide,
    policy: list[_Pair],
    reference: list[_Pair] | None,
    token_ids: list[list[int]] | None,
    others: Known,
) -> Signals:
    """Return all signals that are given, rows of unequal length padded on the right."""
    optional: dict[str, Tensor | tuple[str, ...]] = {**others}
    optional["policy_logps_BT"], optional["policy_entropy_BT"] = _padded(policy)
    if reference is not None:
        optional["reference_logps_BT"], optional["reference_entropy_BT"] = _padded(reference)
    if token_ids is not None:
        rows = [torch.tensor(ids, dtype=torch.long) for ids in token_ids]
        optional["token_ids_BT"] = pad_sequence(rows, batch_first=True)
    read = policy if guide.source == "policy" else reference
    if read is None:
        raise TrainingError(
            "the guide reads signals of the reference, but there is no reference",
            "use --set guide.signal=policy",
        )
    logps_BT, entropy_BT = _padded(read)
    lengths_B1 = torch.tensor([[len(logps_T)] for logps_T, _ in policy])
    mask_BT = (torch.arange(logps_BT.shape[1]) < lengths_B1).to(logps_BT)
    return Signals(logps_BT, entropy_BT, mask_BT, torch.arange(len(policy)), optional)


def _padded(pairs: list[_Pair]) -> tuple[Tensor, Tensor]:
    logps_BT = pad_sequence([logps_T for logps_T, _ in pairs], batch_first=True)
    entropy_BT = pad_sequence([entropy_T for _, entropy_T in pairs], batch_first=True)
    return logps_BT, entropy_BT


def _summary(log_q_T: Tensor, entropy_T: Tensor, guide: Guide) -> dict[str, float]:
    percentiles = {f"entropy_{k}": v for k, v in entropy_percentiles(entropy_T).items()}
    return guide_statistics(log_q_T, guide) | percentiles
