"""Archer: KL and a narrow clip range hold a completion's certain tokens, not its uncertain ones."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Literal

from pydantic import Field

from sage_cli.methods.method import PlainAdvantages

if TYPE_CHECKING:
    from torch import Tensor

    from sage_cli.methods.formulas import Update


class Archer(PlainAdvantages):
    """Archer (Wang et al. 2025). Clip ranges act where a batch is used for several updates."""

    algo: Literal["archer"] = "archer"
    loss: Literal["grpo", "bnpo", "dapo", "dr_grpo"] = "dapo"
    """How the policy's term is averaged; these losses are clipped token by token."""
    epsilon_low: float = Field(0.5, gt=0, le=1)
    """Clip range of uncertain tokens: the ratio is clipped below 1 - epsilon_low."""
    epsilon_high: float = Field(0.5, gt=0)
    """Clip range of uncertain tokens: the ratio is clipped above 1 + epsilon_high."""
    epsilon_certain: float = Field(0.2, gt=0, le=1)
    """Clip range of certain tokens, on both sides."""
    delta: float | None = Field(10.0, gt=1)
    steps_per_generation: int = Field(2, ge=1)

    source = (
        "Wang et al. 2025 (arXiv 2507.15778): KL weight 0 and clip range .5 on a completion's "
        "most uncertain fifth, .001 and .2 elsewhere"
    )
    read_from = "code"
    differs = (
        "one pass over a batch, theirs has three; the mean of the KL term counts all tokens, "
        "theirs certain ones; groups of equal grades count in means, theirs are left out; a "
        "preset's anchor.beta goes before .001"
    )
    anchored = {"beta": 0.001, "tokens": "certain", "rows": "informative"}  # noqa: RUF012
    shapes_tokens = True

    def shape(self, update: Update) -> Tensor:
        """Return A, and 0 for certain tokens past their own clip range, which have no gradient."""
        if not self.clip:
            return update.advantages_BT
        narrow = replace(update, clip=(self.epsilon_certain, self.epsilon_certain))
        clipped_BT = narrow.clipped_BT & ~update.uncertain_BT
        return update.advantages_BT.masked_fill(clipped_BT, 0.0)
