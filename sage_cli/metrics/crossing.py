"""The k from which the model that trails at first leads."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from sage_cli.metrics.counts import Evaluations, each_seed
from sage_cli.metrics.differences import ROUNDING, gap_interval, paired_gaps
from sage_cli.metrics.estimators import FloatArray
from sage_cli.metrics.intervals import USUAL, Resampling, resampled_means


@dataclass(frozen=True)
class Crossing:
    """The k from which the model that trails at the smallest k leads, with its interval.

    `leader` is the one that leads at the smallest k, "a" or "b" ("" where they never differ).
    `k` is NaN where the curves don't cross. `low` = -inf says "before the first k" and
    `high` = inf "after the last k or never". `share` of the resamples cross within the ks.

    Any two curves that are close cross somewhere by chance: `k` is an estimate and no finding
    unless `established`, which takes two finite ends, a leader that is ahead before the crossing
    and behind after it, each with `confidence` (the mean difference over log k on either side).
    A late crossing is seldom established, and then it is one that came out early: `k` is too low
    among the established ones where these are few, while the interval still covers.
    """

    leader: str
    k: float
    low: float
    high: float
    share: float
    confidence: float
    established: bool = False


def find_crossing(
    a: Evaluations, b: Evaluations, ks: Sequence[int], resampling: Resampling = USUAL
) -> Crossing:
    """Find the crossing, interpolated in log2 k; the interval resamples problems.

    NaN throughout for fewer than two ks or problems, and for curves that are equal at every k.
    """
    gap_PK = resampling.drawn_units(paired_gaps(a, b, ks), each_seed(a)[0].problem_ids)
    gap_K = gap_PK.mean(axis=0)
    differing = np.flatnonzero(np.abs(gap_K) > ROUNDING)
    if not differing.size or min(gap_PK.shape) < 2:
        return Crossing("", np.nan, np.nan, np.nan, np.nan, resampling.confidence)
    # the side that leads at the smallest k at which they differ; everything after is written as if
    # that were A
    sign = float(np.sign(gap_K[differing[0]]))
    # all ks of a resample come from the same problems, so that a resampled curve is a curve
    means_RK = resampled_means(gap_PK, resampling)
    crossings_R = first_below_zero(sign * means_RK, ks)
    k = float(first_below_zero(sign * gap_K[None, :], ks)[0])
    tail = (1 - resampling.confidence) / 2
    # order statistics, not interpolated: between a number and "never" there is nothing
    low, high = map(float, np.quantile(crossings_R, [tail, 1 - tail], method="inverted_cdf"))
    established = bool(np.isfinite([low, k, high]).all()) and ks[0] < k < ks[-1]
    if established:
        # two tests on the same problems, the lead before and after: each must exclude 0 by itself,
        # since both are claimed
        sides_P2 = sign * gap_PK @ _weights_before_and_after(k, ks)
        ends = gap_interval(sides_P2, resampling)
        established = bool(ends.low_K[0] > 0 > ends.high_K[1])
    leader, share = "a" if sign > 0 else "b", float(np.isfinite(crossings_R).mean())
    k = k if np.isfinite(k) else np.nan
    return Crossing(leader, k, low, high, share, resampling.confidence, established)


def _weights_before_and_after(crossing: float, ks: Sequence[int]) -> FloatArray:
    """Weights of the mean over log k before the crossing and after it, shape (K, 2)."""
    width_K = np.gradient(np.log2(np.asarray(ks, float)))
    before_K = np.asarray(ks) < crossing
    weight_K2 = np.stack([width_K * before_K, width_K * ~before_K], axis=1)
    return np.asarray(weight_K2 / weight_K2.sum(axis=0))


def first_below_zero(gap_RK: FloatArray, ks: Sequence[int]) -> FloatArray:
    """Per row, the k at which the gap first falls below 0: -inf at once, inf never."""
    below_RK = gap_RK < -ROUNDING
    k_R = np.where(below_RK.any(axis=1), -np.inf, np.inf)
    rows = np.flatnonzero(below_RK.any(axis=1) & ~below_RK[:, 0])
    first = below_RK[rows].argmax(axis=1)
    # a gap between -ROUNDING and 0 counts as not yet below: as 0, so that the interpolation stays
    # between the two ks
    before, after = np.maximum(gap_RK[rows, first - 1], 0), gap_RK[rows, first]
    log_k = np.log2(np.asarray(ks, float))
    part = before / (before - after)
    k_R[rows] = 2 ** (log_k[first - 1] + part * (log_k[first] - log_k[first - 1]))
    return k_R
