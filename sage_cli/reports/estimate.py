"""Numbers with their uncertainty, as every table shows them."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass, replace

UNDEFINED = "–"
P_DIGITS = 2
"""Significant digits of a p-value."""
SMALLEST_P = 0.0001
"""Smaller p-values are shown as "<0.0001": no test here is exact so far out."""


@dataclass(frozen=True)
class Estimate:
    """A number with its standard deviation or interval, if it has one.

    With `significant`, digits are significant ones. A p-value (`is_p`) has `P_DIGITS` of these,
    zeros at the end included, or is shown as below `SMALLEST_P`; one of at most `below` is shown as
    "<0.05", where it is not exact enough. NaN is undefined; its interval, if any, is shown alone.
    """

    value: float
    sd: float | None = None
    interval: tuple[float, float] | None = None
    digits: int = 3
    signed: bool = False
    is_p: bool = False
    significant: bool = False
    below: float | None = None

    def __str__(self) -> str:
        """Return it as people read it, with a minus sign; data have the numbers themselves."""
        return re.sub("(?<!e)-", "−", self._text())

    def _text(self) -> str:
        if math.isnan(self.value):
            return self._span() or UNDEFINED
        if self.below is not None and self.value <= self.below:
            return f"<{self.below:g}"
        if self.is_p:
            smallest = 0 < self.value < SMALLEST_P
            return f"<{SMALLEST_P:.4f}" if smallest else f"{self.value:#.{P_DIGITS}g}"
        if self.significant:
            return f"{self.value:.{self.digits}g}"
        text = f"{self.value:{'+' if self.signed else ''}.{self.digits}f}"
        if self.sd is not None and not math.isnan(self.sd):
            text += f" ± {self.sd:.{self.digits}f}"
        return f"{text} {self._span()}".rstrip()

    def _span(self) -> str:
        """Return the interval as `[0.010, 0.025]`, or nothing."""
        if self.interval is None or any(map(math.isnan, self.interval)):
            return ""
        low, high = (f"{end:.{self.digits}f}" for end in self.interval)
        return f"[{low}, {high}]"

    def negated(self) -> Estimate:
        """Return the estimate of the opposite difference, b − a of a − b."""
        # 0.0 - x instead of -x, because -0.0 would be shown with a minus sign
        interval = self.interval and (0.0 - self.interval[1], 0.0 - self.interval[0])
        return replace(self, value=0.0 - self.value, interval=interval)

    def parts(self) -> dict[str, float]:
        """Return its defined numbers by name, "" for the value itself."""
        low, high = self.interval or (None, None)
        numbers = {"": self.value, "sd": self.sd, "low": low, "high": high}
        return {k: v for k, v in numbers.items() if v is not None and not math.isnan(v)}


def p_value(p: float, below: float | None = None) -> Estimate:
    """Return a p-value as all tables show it: two significant digits, or "<0.0001"."""
    return Estimate(p, is_p=True, below=below)


Scores = Mapping[str, Mapping[int, Estimate]]
"""Benchmark -> k -> pass@k of a model."""
