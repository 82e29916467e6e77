"""Intervals for a mean that is looked at several times while values come in.

At each planned look the interval is Student's, at a level that spends part of alpha. In
1 - alpha of all studies no look's interval excludes the true mean, so a study may stop at any of
them (repeated confidence intervals: Jennison and Turnbull 1989, JRSS B 51(3)).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from math import sqrt

import numpy as np

from sage_cli.metrics.counts import FloatArray
from sage_cli.metrics.intervals.distributions import two_sided_p, two_sided_reach

STUDIES = 400_000
"""Simulated studies: the level of all looks together is known to ± .0003."""


@dataclass(frozen=True)
class Look:
    """A look at the first `count` values: their mean, its interval, and the interval's level."""

    count: int
    mean: float
    low: float
    high: float
    alpha: float

    @property
    def excludes_zero(self) -> bool:
        """Return True if the mean differs from 0."""
        return self.low > 0 or self.high < 0

    def lies_within(self, bound: float | None) -> bool:
        """Return True if the mean is smaller than `bound`, whatever its sign."""
        return bound is not None and -bound < self.low and self.high < bound


def spent(count: int, last: int, alpha: float) -> float:
    """Return the share of alpha that is spent by a look: alpha (count / last)².

    Little is spent while few values are there (Kim and DeMets 1987, Biometrika 74(1)).
    """
    return alpha * (count / last) ** 2


@lru_cache(maxsize=16)
def look_levels(looks: tuple[int, ...], alpha: float) -> tuple[float, ...]:
    """Return the level of Student's interval at each look.

    With these levels, each look is the first to exclude the true mean of normal values in the
    share of studies that it spends. The joint distribution of the looks' t knows neither mean nor
    variance, so it is simulated once, always with the same numbers; the first is exact.
    """
    rng = np.random.default_rng(0)
    sum_R, square_R, alive_R = np.zeros(STUDIES), np.zeros(STUDIES), np.ones(STUDIES, bool)
    levels: list[float] = []
    before, gone = 0, 0.0
    for count in looks:
        for _ in range(count - before):
            values_R = rng.standard_normal(STUDIES)
            sum_R += values_R
            square_R += values_R**2
        variance_R = (square_R - sum_R**2 / count) / (count - 1)
        p_R = two_sided_p(sum_R / np.sqrt(count * variance_R), np.array(count - 1.0))
        share = spent(count, looks[-1], alpha) - gone
        level = share if not levels else float(np.quantile(p_R[alive_R], share / alive_R.mean()))
        levels.append(level)
        alive_R &= p_R > level
        before, gone = count, spent(count, looks[-1], alpha)
    return tuple(levels)


def looks_at(values_I: FloatArray, looks: Sequence[int], alpha: float = 0.05) -> list[Look]:
    """Return the looks that so many values allow, in the order in which they came in."""
    found = []
    for count, level in zip(looks, look_levels(tuple(looks), alpha), strict=True):
        if count > len(values_I):
            break
        first_I = values_I[:count]
        mean, error = float(first_I.mean()), float(first_I.std(ddof=1)) / sqrt(count)
        reach = float(two_sided_reach(level, np.array(count - 1.0))) * error
        found.append(Look(count, mean, mean - reach, mean + reach, level))
    return found
