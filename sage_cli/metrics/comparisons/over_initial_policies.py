"""Estimates over initial policies: a claim about methods is one about other initial policies, too.

Training seeds and problems are nested in initial policies, each of which is drawn with its own. So
the means of the initial policies are independent, whatever their seeds and problems do to them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import nan

import numpy as np

from sage_cli.errors import MetricError
from sage_cli.metrics.comparisons.seed_noise import error_over
from sage_cli.metrics.counts import FloatArray
from sage_cli.metrics.intervals.bands import pooled_variance
from sage_cli.metrics.intervals.distributions import two_sided_p, two_sided_reach
from sage_cli.metrics.intervals.interval import USUAL, Interval, Resampling
from sage_cli.metrics.intervals.resampling import studentised

FEWEST = 3
"""Initial policies without which there is no interval: two leave a single degree of freedom."""


@dataclass(frozen=True)
class OverInitialPolicies:
    """The mean of a difference over initial policies, with Student's t for other ones.

    Interval and p are NaN for fewer than `FEWEST` initial policies. `spread` is the deviation of
    the initial policies' means as they are, of which `between` is due to the initial policies
    themselves, `seeds` to one training seed (NaN with one a policy) and `problems` to the problems
    of one initial policy.
    """

    policies: int
    difference: float
    low: float
    high: float
    p: float
    spread: float
    between: float
    seeds: float
    problems: float


def over_initial_policies(
    differences: Sequence[FloatArray], problem_variances: Sequence[float], confidence: float
) -> OverInitialPolicies:
    """Return the estimate from each initial policy's differences, one for each training seed.

    `problem_variances` are those of the initial policies' means, if only their problems were drawn
    again; NaN is unknown. What seeds and problems explain of the spread may be more than all of
    it: the rest is then 0, as usual in the analysis of variance.
    """
    means_I = np.array([each_S.mean() for each_S in differences])
    policies, difference = len(means_I), float(means_I.mean())
    variance = float(means_I.var(ddof=1)) if policies > 1 else nan
    (seeds,) = pooled_variance([each_S[:, None] for each_S in differences])
    share = float(np.mean([1 / len(each_S) for each_S in differences]))
    problems = float(np.mean(problem_variances))
    left = variance - np.nansum([seeds * share, problems])
    low, high, p = _student(difference, variance, policies, confidence)
    parts = (variance, max(left, 0.0) if policies > 1 else nan, seeds, problems)
    return OverInitialPolicies(policies, difference, low, high, p, *map(float, np.sqrt(parts)))


def _student(
    mean: float, variance: float, policies: int, confidence: float
) -> tuple[float, float, float]:
    """Return interval and p-value of a mean; without any variance the mean is all there is."""
    if policies < FEWEST:
        return nan, nan, nan
    if variance == 0:
        return mean, mean, float(mean == 0)
    error, freedom = np.sqrt(variance / policies), np.array([policies - 1.0])
    (reach,) = two_sided_reach(1 - confidence, freedom) * error
    (p,) = two_sided_p(np.array([mean / error]), freedom)
    return mean - float(reach), mean + float(reach), float(p)


@dataclass(frozen=True, eq=False)
class Interactions:
    """Means in K columns: gains of the methods and their mean, then those less the first's.

    With M methods K is 2 M + 1: `names` has M gains, their mean, M - 1 interactions, their mean.
    `these` holds for other problems of these initial policies, `others` for other initial policies
    too: NaN with a single one. `policies` and `problems` are their numbers, problems of each.
    """

    names: tuple[str, ...]
    mean_K: FloatArray
    these: Interval
    others: Interval
    policies: int
    problems: int

    @property
    def first_interaction(self) -> int:
        """Return the place of the first interaction; gains and their mean are before it."""
        return len(self.names) // 2 + 1


def interactions(
    gains: dict[str, FloatArray],
    how: Resampling = USUAL,
    *,
    shared: bool,
) -> Interactions:
    """Return the gains (Z, P) of methods, and what they are beyond those of the first method.

    Z initial policies have P problems each: the same ones if `shared`, else ones of their own. For
    these initial policies problems are resampled (bootstrap-t). For other ones the policies' means
    are independent where problems aren't shared, so Student's t over them holds; shared problems
    add their variance (`error_over`). Raises MetricError for fewer than two methods or
    problems.
    """
    gain_MZP = np.stack(list(gains.values()))
    if len(gains) < 2 or gain_MZP.shape[2] < 2:
        raise MetricError(
            f"an interaction of {len(gains)} methods on {gain_MZP.shape[2]} problems says nothing",
            "name two methods or more, and measure them on two problems or more",
        )
    value_ZPK = _columns(gain_MZP)
    Z, P, _ = value_ZPK.shape
    these = studentised(_by_problem(value_ZPK, shared), how)
    others = _over_policies(value_ZPK, shared, how.confidence)
    return Interactions(_names(list(gains)), value_ZPK.mean(axis=(0, 1)), these, others, Z, P)


def _columns(gain_MZP: FloatArray) -> FloatArray:
    """Return gains, their mean, interactions and their mean, shape (Z, P, K)."""
    beyond_MZP = gain_MZP[1:] - gain_MZP[0]
    parts = (gain_MZP, gain_MZP.mean(axis=0)[None], beyond_MZP, beyond_MZP.mean(axis=0)[None])
    return np.moveaxis(np.concatenate(parts), 0, -1)


def _names(methods: Sequence[str]) -> tuple[str, ...]:
    first, *others = methods
    beyond = [f"{one} less {first}" for one in others]
    return (*methods, "mean of all", *beyond, f"mean of the others less {first}")


def _by_problem(value_ZPK: FloatArray, shared: bool) -> FloatArray:
    """Return values whose mean varies over problems as that of all policies does.

    Shared problems have one value each, the policies' mean. Others are so many problems, around a
    common mean: what differs between fixed policies doesn't vary.
    """
    if shared:
        by_problem_PK: FloatArray = value_ZPK.mean(axis=0)
        return by_problem_PK
    own_ZPK: FloatArray = value_ZPK - value_ZPK.mean(axis=1, keepdims=True)
    own_ZPK = own_ZPK + value_ZPK.mean(axis=(0, 1))
    return own_ZPK.reshape(-1, value_ZPK.shape[2])


def _over_policies(value_ZPK: FloatArray, shared: bool, confidence: float) -> Interval:
    """Return the intervals for other initial policies; NaN with one, or without any variance."""
    policies, P, K = value_ZPK.shape
    if policies < 2:
        return Interval(*np.full((3, K), np.nan))
    mean_K = value_ZPK.mean(axis=(0, 1))
    if shared:
        # as runs against a fixed side of zeros: few of them need Howe's interval
        error_K, freedom_K = error_over([(value_ZPK, np.zeros((1, P, K)))])
    else:
        error_K = value_ZPK.mean(axis=1).std(axis=0, ddof=1) / np.sqrt(policies)
        freedom_K = np.full(K, policies - 1.0)
    error_K = np.where(error_K > 0, error_K, np.nan)
    reach_K = two_sided_reach(1 - confidence, freedom_K) * error_K
    return Interval(mean_K - reach_K, mean_K + reach_K, two_sided_p(mean_K / error_K, freedom_K))
