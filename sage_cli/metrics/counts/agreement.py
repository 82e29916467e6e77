"""Agreement of two markings of the same things: overlap, chance, kappa and rank correlation."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from sage_cli.metrics.counts import FloatArray

Marks = NDArray[np.bool_]


def jaccard(one: Marks, other: Marks) -> float:
    """Return |A ∩ B| / |A ∪ B|; NaN where nothing is marked."""
    either = int((one | other).sum())
    return int((one & other).sum()) / either if either else float("nan")


def by_chance(one: Marks, other: Marks) -> float:
    """Return the Jaccard index of independent markings with these shares; NaN without a mark."""
    if not len(one):
        return float("nan")
    a, b = float(one.mean()), float(other.mean())
    either = a + b - a * b
    return a * b / either if either else float("nan")


def kappa(one: Marks, other: Marks) -> float:
    """Return Cohen's kappa, (agreement - expected) / (1 - expected).

    NaN where both mark all things or none, or there is nothing to mark.
    """
    if not len(one):
        return float("nan")
    a, b = float(one.mean()), float(other.mean())
    expected = a * b + (1 - a) * (1 - b)
    if expected > 1 - 1e-12:
        return float("nan")
    return (float((one == other).mean()) - expected) / (1 - expected)


def rank_correlation(one: FloatArray, other: FloatArray) -> float:
    """Return Spearman's correlation, equal values sharing their mean rank; NaN for a constant."""
    from scipy.stats import spearmanr

    if len(one) < 2 or np.ptp(one) == 0 or np.ptp(other) == 0:
        return float("nan")
    result: Any = spearmanr(one, other)
    return float(result.statistic)
