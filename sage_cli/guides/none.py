"""No guide: the anchor is the reference."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar, Literal

from sage_cli.guides.guide import Guide, Signals

if TYPE_CHECKING:
    from torch import Tensor


class NoGuide(Guide):
    """q = 1: the anchor is the reference itself."""

    of_states: ClassVar[bool] = True
    name: Literal["none"] = "none"

    def q(self, signals: Signals, step: int) -> Tensor:  # noqa: ARG002
        """Return ones."""
        return signals.logps_BT.new_ones(signals.logps_BT.shape)
