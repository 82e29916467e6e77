"""Student's t for whole degrees of freedom, from its finite sums; SciPy is no dependency."""

from __future__ import annotations

import numpy as np

from sage_cli.errors import MetricError


def within(t: float, freedom: float) -> float:
    """The chance that |T| <= t >= 0; broken degrees of freedom are rounded down, to the safe side.

    Abramowitz and Stegun (1964), 26.7.3 and 26.7.4, with tan(angle) = t / sqrt(freedom).
    """
    whole = int(freedom)
    if whole < 1:
        raise MetricError("Student's t needs at least one degree of freedom")
    angle = np.arctan2(t, np.sqrt(whole))
    sine, square = np.sin(angle), np.cos(angle) ** 2
    odd = whole % 2
    # each term is the one before times cos^2 and (i - 1) / i: i = 2, 4, ... or 3, 5, ...
    steps = np.arange(2 + odd, whole - 1, 2)
    terms = np.concatenate([[1.0], np.cumprod(square * (steps - 1) / steps)])
    if not odd:
        return float(sine * terms.sum())
    more = sine * np.sqrt(square) * terms.sum() if whole > 1 else 0.0
    return float(2 / np.pi * (angle + more))


def quantile(share: float, freedom: float) -> float:
    """The t below which a `share` from 1/2 to 1 of the distribution lies; relative error 1e-12."""
    if not 0.5 <= share < 1:
        raise MetricError(f"a quantile of Student's t is asked for at 0.5 to 1, not at {share}")
    wanted, high = 2 * share - 1, 1.0
    while within(high, freedom) < wanted:
        high *= 2
    low = 0.0
    while high - low > 1e-12 * high:
        middle = (low + high) / 2
        low, high = (middle, high) if within(middle, freedom) < wanted else (low, middle)
    return high
