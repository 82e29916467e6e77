"""Means over problems with their intervals, as cells of tables; NaN stands for no value."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from sage_cli.analysis.analysis import Options
from sage_cli.metrics.comparisons.paired_difference import gap_interval
from sage_cli.metrics.counts import FloatArray
from sage_cli.metrics.intervals.bootstrap import studentised
from sage_cli.metrics.intervals.gaffke import gaffke
from sage_cli.metrics.intervals.interval import Interval
from sage_cli.reports.tables.table import Measure

SEED = 0
"""Seed of resampling: the same data give the same interval."""


def share_over_problems(share_P: ArrayLike, options: Options) -> Measure:
    """Return the mean of shares, each from 0 to 1, with Gaffke's interval."""
    values_P1 = _known(share_P)
    if not len(values_P1):
        return Measure(float("nan"))
    return _measure(values_P1, gaffke(values_P1, (0, 1), **resampling(options)))


def mean_over_problems(value_P: ArrayLike, options: Options, *, signed: bool = False) -> Measure:
    """Return the mean of values without bounds, with a bootstrap-t interval."""
    values_P1 = _known(value_P)
    if len(values_P1) < 2 or np.ptp(values_P1) == 0:
        mean = float(values_P1.mean()) if len(values_P1) else float("nan")
        return Measure(mean, signed=signed)
    return _measure(values_P1, studentised(values_P1, **resampling(options)), signed=signed)


def mean_gap(value_P: ArrayLike, base_P: ArrayLike, options: Options) -> Measure:
    """Return the mean paired difference of values without bounds."""
    return mean_over_problems(np.subtract(value_P, base_P), options, signed=True)


def share_gap(share_P: ArrayLike, base_P: ArrayLike, options: Options) -> Measure:
    """Return the mean paired difference of shares on problems where both are defined."""
    gap_P1 = _known(np.asarray(share_P, float) - np.asarray(base_P, float))
    if not len(gap_P1):
        return Measure(float("nan"), signed=True)
    return _measure(gap_P1, gap_interval(gap_P1, **resampling(options)), signed=True)


def by_problem(
    ids: Sequence[str], values: Iterable[tuple[str, float]]
) -> tuple[list[FloatArray], FloatArray]:
    """Return (problem id, value) pairs as an array per problem of `ids`, and their means.

    NaN values are left out; the mean of no value is NaN.
    """
    grouped: dict[str, list[float]] = {id_: [] for id_ in ids}
    for id_, value in values:
        if not np.isnan(value):
            grouped[id_].append(value)
    arrays = [np.array(group, float) for group in grouped.values()]
    return arrays, np.array([one.mean() if len(one) else np.nan for one in arrays], float)


def resampling(options: Options) -> dict[str, Any]:
    """Return what every resampled interval of an analysis takes."""
    return {"confidence": options.confidence, "resamples": options.resamples, "seed": SEED}


def _known(value_P: ArrayLike) -> np.ndarray:
    """Return the defined values as a column, shape (P, 1)."""
    values_P = np.asarray(value_P, float)
    return values_P[~np.isnan(values_P), None]


def _measure(values_P1: np.ndarray, band: Interval, *, signed: bool = False) -> Measure:
    """Return a mean with its interval, unless that is infinite."""
    low, high = float(band.low_K[0]), float(band.high_K[0])
    interval = (low, high) if np.isfinite([low, high]).all() else None
    return Measure(float(values_P1.mean()), interval=interval, signed=signed)
