"""Shuffled guide: the branch guide's factors at other tokens of the same completion, a control."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

from sage_cli.guides.branch import BranchGuide
from sage_cli.guides.guide import NOISE, Signals, uniforms

if TYPE_CHECKING:
    from torch import Tensor


class ShuffledGuide(BranchGuide):
    """Eq. 11 with the entropies of a completion permuted among its tokens.

    The completion has as much more anchor as under `branch`, at tokens that chance picks: what
    branch gains over this is due to where it acts.
    """

    name: Literal["shuffled"] = "shuffled"  # type: ignore[assignment]
    seed: int = 3407
    """Seed with which the permutations are drawn."""

    def q(self, signals: Signals, step: int) -> Tensor:
        """Return Eq. 11 in another order at each optimiser step, by `uniforms` of the tokens."""
        q_BT, outside_BT = super().q(signals, step), ~signals.mask_BT.bool()
        (uniform_BT,) = uniforms((self.seed, step), signals, 1)
        # both orders have a row's unmasked tokens first, and the others as they stand
        to_BT = outside_BT.int().argsort(dim=1, stable=True)
        from_BT = uniform_BT.masked_fill(outside_BT, 1).argsort(dim=1, stable=True)
        return q_BT.scatter(1, to_BT, q_BT.gather(1, from_BT))

    def determinants(self) -> dict[str, Any]:
        """Return the settings that decide a result, and where the permutations come from."""
        return super().determinants() | NOISE
