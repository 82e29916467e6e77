"""Shuffled guide: the branch guide's factors at other tokens of the same completion, a control."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from sage_cli.guides.branch import BranchGuide
from sage_cli.guides.guide import Signals

if TYPE_CHECKING:
    from torch import Tensor


class ShuffledGuide(BranchGuide):
    """Eq. 11 with the entropies of a completion permuted among its tokens.

    The completion has as much more anchor as under `branch`, at tokens that chance picks: what
    branch gains over this is due to where it acts.
    """

    name: Literal["shuffled"] = "shuffled"  # type: ignore[assignment]
    seed: int = 3407
    """Seed of the permutations."""

    def q(self, signals: Signals, step: int) -> Tensor:
        """Return Eq. 11 in another order at each optimiser step.

        A row has a random stream of its own, so neither padding nor micro-batches change it.
        """
        import numpy as np
        import torch

        q_BT = super().q(signals, step).clone()
        rows = signals.row_ids_B
        ids = range(len(q_BT)) if rows is None else rows.tolist()
        for b, row in enumerate(ids):
            (tokens,) = signals.mask_BT[b].bool().nonzero(as_tuple=True)
            order = np.random.default_rng((self.seed, step, row)).permutation(len(tokens))
            q_BT[b, tokens] = q_BT[b, tokens[torch.from_numpy(order).to(tokens.device)]]
        return q_BT
