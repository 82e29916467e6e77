"""A guide: more anchor on a completion's first tokens, where it chooses its way."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from pydantic import Field

from sage_cli.guides import Guide, Signals

if TYPE_CHECKING:
    from torch import Tensor


class Opening(Guide):
    """q = 1 + strength for the first `tokens` tokens of a completion, 1 after them."""

    name: Literal["opening"] = "opening"
    tokens: int = Field(4, ge=1)
    """How many tokens have more anchor."""
    strength: float = Field(0.2, ge=0)
    """By how much q is above 1 there."""

    def q(self, signals: Signals, step: int) -> Tensor:
        """Return unclamped factors, one for each token (B, T)."""
        place_BT = signals.mask_BT.cumsum(dim=1)  # 1 for the first token
        return 1 + self.strength * (place_BT <= self.tokens)
