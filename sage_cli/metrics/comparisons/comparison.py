"""The comparison of two models, or of two methods over their training seeds."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from sage_cli.metrics.comparisons.differences import (
    Difference,
    gap_interval,
    method_difference,
    paired_difference,
    paired_gaps,
)
from sage_cli.metrics.comparisons.support import Support, compare_support
from sage_cli.metrics.counts import Counts, Evaluations, FloatArray, pooled
from sage_cli.metrics.intervals.bands import Curve, VarianceComponents, curve, variance_components
from sage_cli.metrics.intervals.interval import USUAL, Resampling
from sage_cli.metrics.intervals.resampling import resampled_means
from sage_cli.settings.ks import curve_ks

NOISE = 1e-12
"""Differences of two means that are smaller are rounding."""


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
    a: Evaluations, b: Evaluations, ks: Sequence[int], how: Resampling = USUAL
) -> Crossing:
    """Find the crossing, interpolated in log2 k; the interval resamples problems.

    NaN throughout for fewer than two ks or problems, and for curves that are equal at every k.
    """
    gap_PK = paired_gaps(a, b, ks)
    gap_K = gap_PK.mean(axis=0)
    differing = np.flatnonzero(np.abs(gap_K) > NOISE)
    if not differing.size or min(gap_PK.shape) < 2:
        return Crossing("", np.nan, np.nan, np.nan, np.nan, how.confidence)
    sign = float(np.sign(gap_K[differing[0]]))
    means_RK = resampled_means(gap_PK, how)
    crossings_R = first_below_zero(sign * means_RK, ks)
    k = float(first_below_zero(sign * gap_K[None, :], ks)[0])
    tail = (1 - how.confidence) / 2
    # order statistics, not interpolated: between a number and "never" there is nothing
    low, high = map(float, np.quantile(crossings_R, [tail, 1 - tail], method="inverted_cdf"))
    established = bool(np.isfinite([low, k, high]).all()) and ks[0] < k < ks[-1]
    if established:
        sides_P2 = sign * gap_PK @ _weights_before_and_after(k, ks)
        ends = gap_interval(sides_P2, how)
        established = bool(ends.low_K[0] > 0 > ends.high_K[1])
    leader, share = "a" if sign > 0 else "b", float(np.isfinite(crossings_R).mean())
    k = k if np.isfinite(k) else np.nan
    return Crossing(leader, k, low, high, share, how.confidence, established)


def _weights_before_and_after(crossing: float, ks: Sequence[int]) -> FloatArray:
    """Weights of the mean over log k before the crossing and after it, shape (K, 2)."""
    width_K = np.gradient(np.log2(np.asarray(ks, float)))
    before_K = np.asarray(ks) < crossing
    weight_K2 = np.stack([width_K * before_K, width_K * ~before_K], axis=1)
    return np.asarray(weight_K2 / weight_K2.sum(axis=0))


def first_below_zero(gap_RK: FloatArray, ks: Sequence[int]) -> FloatArray:
    """Per row, the k at which the gap first falls below 0: -inf at once, inf never."""
    below_RK = gap_RK < -NOISE
    k_R = np.where(below_RK.any(axis=1), -np.inf, np.inf)
    rows = np.flatnonzero(below_RK.any(axis=1) & ~below_RK[:, 0])
    first = below_RK[rows].argmax(axis=1)
    before, after = np.maximum(gap_RK[rows, first - 1], 0), gap_RK[rows, first]
    log_k = np.log2(np.asarray(ks, float))
    part = before / (before - after)
    k_R[rows] = 2 ** (log_k[first - 1] + part * (log_k[first] - log_k[first - 1]))
    return k_R


About = Literal["models", "methods"]
"""The subject of a difference: the models at hand, or the methods that train such."""


@dataclass(frozen=True)
class Side:
    """One model, or a method's models with different training seeds.

    `runs` holds for each model its counts, one for each evaluation seed. A single model that is a
    `base` is meant itself; any other single model is one training of a method.
    """

    label: str
    runs: tuple[Sequence[Counts], ...]
    base: bool = False

    @property
    def counts(self) -> list[Counts]:
        """The counts of all models and evaluation seeds."""
        return [seed for run in self.runs for seed in run]


def about(a: Side, b: Side) -> About:
    """Return "methods" if each side has several training seeds, or one has and the other is a base.

    A single training says nothing about its method: another seed gives another model.
    """
    several = [len(side.runs) > 1 for side in (a, b)]
    known = all(many or side.base for many, side in zip(several, (a, b), strict=True))
    return "methods" if any(several) and known else "models"


@dataclass(frozen=True)
class Comparison:
    """Side a less side b, at the ks of a curve; `shown` are those that a table is to show.

    Crossing and support are those of two models, None where a side has several.
    """

    a: Side
    b: Side
    curves: tuple[Curve, Curve]
    difference: Difference
    variances: tuple[VarianceComponents, VarianceComponents]
    crossing: Crossing | None
    support: Support | None
    shown: tuple[int, ...]


def compare_sides(a: Side, b: Side, ks: Sequence[int], how: Resampling = USUAL) -> Comparison:
    """Compare two models (one each), or methods (several models a side), on the same problems.

    Everything is computed at all ks of a curve; `ks` are those to show.
    """
    shown = tuple(map(int, ks))
    fewest = [int(counts.n_P.min()) for counts in (*a.counts, *b.counts) if len(counts)]
    ks = curve_ks(min(fewest, default=0), shown)
    crossing, support = None, None
    if len(a.runs) == len(b.runs) == 1:
        difference = paired_difference(a.counts, b.counts, ks, how)
        crossing = find_crossing(a.counts, b.counts, ks, how)
        support = compare_support(pooled(b.counts), pooled(a.counts), confidence=how.confidence)
    else:
        difference = method_difference(a.runs, b.runs, ks, how)
    curves = curve(a.counts, ks, how), curve(b.counts, ks, how)
    variances = variance_components(a.runs, ks), variance_components(b.runs, ks)
    return Comparison(a, b, curves, difference, variances, crossing, support, shown)
