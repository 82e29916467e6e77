"""What a guide may look at: the signals of one batch of completions."""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor


@dataclass(frozen=True)
class Signals:
    """Per-token signals of B completions of at most T tokens, without gradients.

    `logps_BT` are log-probabilities of the sampled tokens and `entropy_BT` the entropies H_t of
    the distributions they were drawn from (Eq. 12), both in nats; `mask_BT` is 1 on completion
    tokens. `row_ids_B` is each row's index in the whole generation batch, so that noise depends
    neither on micro-batches nor on processes; without it rows count from 0.
    """

    logps_BT: Tensor
    entropy_BT: Tensor
    mask_BT: Tensor
    row_ids_B: Tensor | None = None
