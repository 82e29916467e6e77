"""The places of a parameter's values on a picture's axis: linear, logarithmic, or words."""

from __future__ import annotations

from math import ceil, floor
from typing import Any

import numpy as np

from sage_cli.reports.sweeps.data import Axis, SweepTrial, Value, as_text

TICKS = 5
"""Number of ticks on a logarithmic axis that spans few powers of ten."""
LONG, LONGEST = 8, 18
"""Words longer than the first are rotated, those longer than the second are shortened."""


class Scale:
    """Places of an axis's values: the values, their logarithms, or the words' order."""

    def __init__(self, axis: Axis, trials: tuple[SweepTrial, ...]) -> None:
        self.axis = axis
        used = [trial.settings[axis.key] for trial in trials if axis.key in trial.settings]
        self._words = list(axis.values or dict.fromkeys(used)) if not axis.is_number else []
        self._numbers = [] if self._words else [float(value) for value in used]

    def place(self, value: Value) -> float:
        """Return the place of `value`."""
        if self._words:
            return float(self._words.index(value))
        return float(np.log10(float(value))) if self.axis.log else float(value)

    @property
    def ends(self) -> tuple[float, float]:
        """Return the ends of the axis: its range with some room on both sides."""
        if self._words:
            return -0.5, len(self._words) - 0.5
        given = (self.axis.low, self.axis.high, *self._numbers, *(self.axis.values or ()))
        places = [self.place(value) for value in given if value is not None]
        low, high = (min(places), max(places)) if places else (0.0, 1.0)
        room = 0.06 * (high - low) or 0.5
        return low - room, high + room

    def mark(self, axis: Any) -> None:
        """Set the ticks of matplotlib's `axis` (of an axes' x or y)."""
        low, high = self.ends
        if self._words:
            names = [_cut(as_text(word)) for word in self._words]
            axis.set_ticks(range(len(names)), names)
            if axis.axis_name == "x" and max(map(len, names)) > LONG:
                axis.set_tick_params(rotation=30, rotation_mode="xtick")
        elif self.axis.values is not None:
            axis.set_ticks(
                [self.place(value) for value in self.axis.values], map(as_text, self.axis.values)
            )
        elif self.axis.log:
            powers = [float(power) for power in range(ceil(low), floor(high) + 1)]
            places = powers if len(powers) > 2 else np.linspace(low, high, TICKS + 2)[1:-1]
            axis.set_ticks(places, [f"{10.0**place:.2g}" for place in places])


def _cut(word: str) -> str:
    return word if len(word) <= LONGEST else f"{word[: LONGEST - 1]}…"
