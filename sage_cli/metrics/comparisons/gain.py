"""A policy's gain over its initial policy at equal pass@1, problem by problem."""

from __future__ import annotations

import math

import numpy as np

from sage_cli.metrics.comparisons.hull import gap_over_temperatures
from sage_cli.metrics.counts import FloatArray
from sage_cli.metrics.counts.worked import Worked
from sage_cli.metrics.intervals.bootstrap import studentised

NO_CHANGE = 1e-12
"""Differences below it are rounding."""


def gain_by_problem(worked: Worked, k: int) -> FloatArray:
    """Return the jackknife's pseudo-values (P,) of the gain in worked pass@k at equal pass@1.

    The gain is the policy's worked pass@k less its initial policy's, each as it is or at a higher
    temperature, where both have the smaller of the two pass@1. Where no temperature brings one side
    down to it, that side is taken at the highest, where it still is right more often: the policy's
    gain then counts for too little, or a collapsed policy's loss for too little. The pseudo-values'
    mean is the gain less the jackknife's estimate of its bias.
    """
    curves = [
        [_with_each_left_out(values_PT) for values_PT in worked.points(chances_TP, k)]
        for chances_TP in (worked.policy_TP, worked.initial_TP)
    ]
    (own_RT, own_k_RT), (first_RT, first_k_RT) = curves
    found_R = gap_over_temperatures(
        (own_RT, own_k_RT), [(first_RT, first_k_RT)], worked.at
    ).difference_R
    own_is_higher_R = own_RT[:, worked.at] > first_RT[:, worked.at]
    at_the_end_R = np.where(
        own_is_higher_R,
        own_k_RT[:, -1] - first_k_RT[:, worked.at],
        own_k_RT[:, worked.at] - first_k_RT[:, -1],
    )
    gain_R = np.where(np.isnan(found_R), at_the_end_R, found_R)
    problems = len(worked)
    pseudo_P: FloatArray = problems * gain_R[0] - (problems - 1) * gain_R[1:]
    return pseudo_P


def gain_intervals(
    pseudo_PK: FloatArray, *, confidence: float, resamples: int, seed: int
) -> tuple[tuple[float, float], ...]:
    """Return bootstrap-t intervals of K means of pseudo-values, or of their differences.

    One of values that are all alike, such as the initial policy's over itself, has no width. NaN
    for one problem.
    """
    mean_K = pseudo_PK.mean(axis=0)
    if len(pseudo_PK) < 2:
        return ((math.nan, math.nan),) * len(mean_K)
    found = studentised(pseudo_PK, confidence=confidence, resamples=resamples, seed=seed)
    alike_K = np.ptp(pseudo_PK, axis=0) < NO_CHANGE
    low_K, high_K = (np.where(alike_K, mean_K, end_K) for end_K in (found.low_K, found.high_K))
    return tuple(zip(map(float, low_K), map(float, high_K), strict=True))


def _with_each_left_out(values_PT: FloatArray) -> FloatArray:
    """Return (1 + P, T): the mean over problems, then the means without each of them."""
    mean_T = values_PT.mean(axis=0)
    without_PT = mean_T + (mean_T - values_PT) / (len(values_PT) - 1)
    return np.concatenate([mean_T[None], without_PT])
