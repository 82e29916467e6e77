"""Estimates over initial policies: a claim about methods is one about other initial policies, too.

Training seeds and problems are nested in initial policies, each of which is drawn with its own. So
the means of the initial policies are independent, whatever their seeds and problems do to them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import nan

import numpy as np

from sage_cli.metrics.counts import FloatArray
from sage_cli.metrics.intervals.distributions import two_sided_p, two_sided_reach
from sage_cli.metrics.intervals.variance_components import pooled_variance

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
