"""A policy against the best of several others at equal pass@1, over temperatures or steps.

Each policy is a curve of (pass@1, pass@k), for it can trade one for the other: by its temperature,
or by the step at which its training ends. The best of several curves at a pass@1 is their hull.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from sage_cli.metrics.counts import FloatArray, IntArray
from sage_cli.metrics.counts.exact import Worked
from sage_cli.metrics.intervals.interval import Resampling
from sage_cli.metrics.intervals.resampling import studentised

Curve = tuple[FloatArray, FloatArray]
"""pass@1 and pass@k, both (R, X): R resamples of the problems, X temperatures or steps."""


@dataclass(frozen=True, eq=False)
class HullGap:
    """pass@k of a policy less the best of others where all have the pass@1 `target_R`.

    NaN where it isn't reached. Places are between two points of a curve, counted from 0: `place_R`
    on the policy's own, `best_place_R` on that of the best other one, the `best_R`-th.
    """

    target_R: FloatArray
    difference_R: FloatArray
    place_R: FloatArray
    best_R: IntArray
    best_place_R: FloatArray


def gap_over_temperatures(policy: Curve, others: Sequence[Curve], at: int) -> HullGap:
    """Return the gap over ascending temperatures, on which pass@1 falls.

    The target is the policy's pass@1 at the `at`-th temperature, or the largest of the others'
    there if that is smaller: each side is taken as it is, or at a higher temperature.
    """
    largest_R = np.max([accuracy_RX[:, at] for accuracy_RX, _ in others], axis=0)
    target_R = np.minimum(policy[0][:, at], largest_R)
    last = policy[0].shape[1] - 1
    rising = [(accuracy_RX[:, ::-1], pass_RX[:, ::-1]) for accuracy_RX, pass_RX in others]
    found = _gap((policy[0][:, ::-1], policy[1][:, ::-1]), rising, target_R)
    return HullGap(
        target_R, found.difference_R, last - found.place_R, found.best_R, last - found.best_place_R
    )


def gap_along_steps(policy: Curve, others: Sequence[Curve]) -> HullGap:
    """Return the gap along steps, on which pass@1 is made to rise by isotonic regression.

    The target is the largest pass@1 that the policy and one of the others reach.
    """
    own, *rising = [(_isotonic(accuracy_RX), pass_RX) for accuracy_RX, pass_RX in (policy, *others)]
    largest_R = np.max([accuracy_RX[:, -1] for accuracy_RX, _ in rising], axis=0)
    return _gap(own, rising, np.minimum(own[0][:, -1], largest_R))


def _gap(policy: Curve, others: Sequence[Curve], target_R: FloatArray) -> HullGap:
    own_R, place_R = _reached(*policy, target_R)
    reached = [_reached(*curve, target_R) for curve in others]
    others_OR, places_OR = (np.stack(each) for each in zip(*reached, strict=True))
    best_R = np.where(np.isnan(others_OR), -np.inf, others_OR).argmax(axis=0)
    rows = np.arange(len(best_R))
    difference_R = own_R - others_OR[best_R, rows]
    return HullGap(target_R, difference_R, place_R, best_R, places_OR[best_R, rows])


def _reached(
    accuracy_RX: FloatArray, pass_RX: FloatArray, target_R: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """Return pass@k and the place where pass@1, which rises, first has the target; NaN if never."""
    reached_RX = accuracy_RX >= target_R[:, None]
    place_R = reached_RX.argmax(axis=1)
    rows, before_R = np.arange(len(place_R)), np.maximum(place_R - 1, 0)
    low_R, high_R = accuracy_RX[rows, before_R], accuracy_RX[rows, place_R]
    rise_R = np.where(high_R > low_R, high_R - low_R, 1.0)
    share_R = np.where(place_R > 0, (target_R - low_R) / rise_R, 0.0)
    # a curve that begins above the target doesn't have it anywhere
    known_R = reached_RX.any(axis=1) & ((place_R > 0) | (high_R == target_R))
    share_R = np.where(known_R, share_R, np.nan)
    passed_R = pass_RX[rows, before_R]
    return passed_R + share_R * (pass_RX[rows, place_R] - passed_R), before_R + share_R


def _isotonic(accuracy_RX: FloatArray) -> FloatArray:
    from scipy.optimize import isotonic_regression

    return np.stack([isotonic_regression(accuracy_X).x for accuracy_X in accuracy_RX])


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


def gain_intervals(pseudo_PK: FloatArray, how: Resampling) -> tuple[tuple[float, float], ...]:
    """Return bootstrap-t intervals of K means of pseudo-values, or of their differences.

    One of values that are all alike, such as the initial policy's over itself, has no width. NaN
    for one problem.
    """
    mean_K = pseudo_PK.mean(axis=0)
    if len(pseudo_PK) < 2:
        return ((math.nan, math.nan),) * len(mean_K)
    found = studentised(pseudo_PK, how)
    alike_K = np.ptp(pseudo_PK, axis=0) < NO_CHANGE
    low_K, high_K = (np.where(alike_K, mean_K, end_K) for end_K in (found.low_K, found.high_K))
    return tuple(zip(map(float, low_K), map(float, high_K), strict=True))


def _with_each_left_out(values_PT: FloatArray) -> FloatArray:
    """Return (1 + P, T): the mean over problems, then the means without each of them."""
    mean_T = values_PT.mean(axis=0)
    without_PT = mean_T + (mean_T - values_PT) / (len(values_PT) - 1)
    return np.concatenate([mean_T[None], without_PT])
