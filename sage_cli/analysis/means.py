"""Means over problems with their intervals, as cells of tables."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from sage_cli.analysis.material import Asked
from sage_cli.metrics.comparisons.paired_difference import gap_interval
from sage_cli.metrics.intervals.bootstrap import studentised
from sage_cli.metrics.intervals.gaffke import gaffke
from sage_cli.reports.table import Measure

SEED = 0
"""The same data have the same interval each time."""


def share_over_problems(share_P: ArrayLike, asked: Asked) -> Measure:
    """The mean of shares, each from 0 to 1, with Gaffke's interval; NaN stands for no value."""
    values_P1 = _known(share_P)
    if not len(values_P1):
        return Measure(float("nan"))
    found = gaffke(
        values_P1, (0, 1), confidence=asked.confidence, resamples=asked.resamples, seed=SEED
    )
    return _measure(values_P1, float(found.low_K[0]), float(found.high_K[0]))


def mean_over_problems(value_P: ArrayLike, asked: Asked, *, signed: bool = False) -> Measure:
    """The mean of values without bounds, with a bootstrap-t interval; NaN stands for no value."""
    values_P1 = _known(value_P)
    if len(values_P1) < 2 or np.ptp(values_P1) == 0:
        mean = float(values_P1.mean()) if len(values_P1) else float("nan")
        return Measure(mean, signed=signed)
    found = studentised(
        values_P1, confidence=asked.confidence, resamples=asked.resamples, seed=SEED
    )
    return _measure(values_P1, float(found.low_K[0]), float(found.high_K[0]), signed=signed)


def share_gap(share_P: ArrayLike, base_P: ArrayLike, asked: Asked) -> Measure:
    """The mean paired difference of shares, on the problems on which both have one."""
    gap_P1 = _known(np.asarray(share_P, float) - np.asarray(base_P, float))
    if not len(gap_P1):
        return Measure(float("nan"), signed=True)
    found = gap_interval(gap_P1, confidence=asked.confidence, resamples=asked.resamples, seed=SEED)
    return _measure(gap_P1, float(found.low_K[0]), float(found.high_K[0]), signed=True)


def _known(value_P: ArrayLike) -> np.ndarray:
    """The values that there are, as a column (P, 1)."""
    values_P = np.asarray(value_P, float)
    return values_P[~np.isnan(values_P), None]


def _measure(values_P1: np.ndarray, low: float, high: float, *, signed: bool = False) -> Measure:
    """Without an interval where it would be the whole line."""
    interval = (low, high) if np.isfinite([low, high]).all() else None
    return Measure(float(values_P1.mean()), interval=interval, signed=signed)
