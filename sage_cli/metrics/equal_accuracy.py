"""pass@k at equal pass@1, with its interval, for policies that are curves and not points.

A lower temperature raises pass@1 and lowers pass@k, as training does. So a policy is a curve of
(pass@1, pass@k) over temperatures, and is compared with another where both have the same pass@1.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from sage_cli.errors import MetricError
from sage_cli.metrics.estimators import FloatArray
from sage_cli.metrics.intervals import Resampling, resampled_means, studentised

UNREACHED_SHARE = 0.05
"""An interval is refused where more of the resamples than this share don't reach the target."""
NO_CHANGE = 1e-12
"""Differences below it are rounding."""

_Curve = tuple[FloatArray, FloatArray]
"""pass@1 and pass@k, both (R, T): R resamples of the problems, T ascending temperatures."""


@dataclass(frozen=True, eq=False)
class Gap:
    """pass@k of a policy minus that of another where both have the pass@1 `target_R`.

    NaN where it isn't reached. `place_R` and `other_place_R` are places on the two curves, between
    two temperatures, counted from 0.
    """

    target_R: FloatArray
    difference_R: FloatArray
    place_R: FloatArray
    other_place_R: FloatArray


def gap_over_temperatures(
    policy: _Curve, other: _Curve, at: int, target_R: FloatArray | None = None
) -> Gap:
    """Return the gap of two curves over ascending temperatures, on which pass@1 falls.

    Without `target_R` the target is the smaller of their pass@1 at the `at`-th temperature: each
    policy is taken as it is, or at a higher temperature.
    """
    if target_R is None:
        target_R = np.minimum(policy[0][:, at], other[0][:, at])
    own_R, place_R = _reached(policy, target_R)
    others_R, other_place_R = _reached(other, target_R)
    return Gap(target_R, own_R - others_R, place_R, other_place_R)


def _reached(curve: _Curve, target_R: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return pass@k and the place where pass@1 has the target; NaN if nowhere.

    pass@1 rises from the highest temperature to the lowest: the first place on that way counts.
    """
    # Resampled curves need not be monotone. The first crossing from the highest temperature on is a
    # definite place, and for a monotone curve the only one.
    accuracy_RT, pass_RT = (values_RT[:, ::-1] for values_RT in curve)
    reached_RT = accuracy_RT >= target_R[:, None]
    place_R = reached_RT.argmax(axis=1)
    rows, before_R = np.arange(len(place_R)), np.maximum(place_R - 1, 0)
    low_R, high_R = accuracy_RT[rows, before_R], accuracy_RT[rows, place_R]
    # Linear between two measured temperatures. Where the curve begins at the target both ends are
    # one point, and 0 would be divided by 0.
    rise_R = np.where(high_R > low_R, high_R - low_R, 1.0)
    share_R = np.where(place_R > 0, (target_R - low_R) / rise_R, 0.0)
    # a curve that begins above the target doesn't have it anywhere
    known_R = reached_RT.any(axis=1) & ((place_R > 0) | (high_R == target_R))
    share_R = np.where(known_R, share_R, np.nan)
    passed_R = pass_RT[rows, before_R]
    value_R = passed_R + share_R * (pass_RT[rows, place_R] - passed_R)
    return value_R, accuracy_RT.shape[1] - 1 - (before_R + share_R)


@dataclass(frozen=True, eq=False)
class Points:
    """pass@1 and pass@k of each problem, both (P, T): problems, ascending temperatures."""

    accuracy_PT: FloatArray
    pass_k_PT: FloatArray


@dataclass(frozen=True)
class EqualAccuracy:
    """pass@k of a policy minus that of another, where both have `accuracy` for pass@1.

    `at` and `other_at` are the temperatures, interpolated, at which the two have that pass@1.
    `unreached` of `resamples` do not reach it.
    """

    accuracy: float
    difference: float
    low: float
    high: float
    p: float
    at: float
    other_at: float
    unreached: int
    resamples: int


@dataclass(frozen=True)
class NotReached:
    """The reason why policies can't be compared at equal pass@1."""

    reason: str


def equal_accuracy(
    policy: Points,
    other: Points,
    temperatures: Sequence[float],
    at: int,
    resampling: Resampling,
    target_P: FloatArray | None = None,
) -> EqualAccuracy | NotReached:
    """Return the policy's pass@k minus the other's at equal pass@1.

    `temperatures` ascend; the `at`-th is the evaluation's. The target is the mean of `target_P`, a
    third policy's pass@1 on each problem, by default the smaller pass@1 of the two there. The
    interval is about other problems of the kind: the bootstrap-t interval of a mean, of the
    problems' jackknife pseudo-values, so the target and the places are found again without each
    problem. NotReached where the pass@1 isn't reached, or more than `UNREACHED_SHARE` of resampled
    problems don't reach it.
    """
    curves, target_R = _resampled(policy, other, target_P, resampling)
    gap = gap_over_temperatures(*curves, at, target_R)
    return _estimate(gap, len(policy.accuracy_PT), temperatures, resampling)


def best_temperatures(
    policy: Points, other: Points, temperatures: Sequence[float], resampling: Resampling
) -> EqualAccuracy | NotReached:
    """Return the policy's pass@k minus the other's, each at the temperature of its largest pass@k.

    They have no common pass@1. The temperatures are chosen on all problems and fixed in resamples,
    since the jackknife of a maximum is too narrow where two temperatures are nearly as good.
    """
    curves, _ = _resampled(policy, other, None, resampling)
    bests = [int(pass_RT[0].argmax()) for _, pass_RT in curves]
    own_R, others_R = (pass_RT[:, best] for (_, pass_RT), best in zip(curves, bests, strict=True))
    places = [np.full(len(own_R), float(best)) for best in bests]
    gap = Gap(np.full(len(own_R), np.nan), own_R - others_R, *places)
    return _estimate(gap, len(policy.accuracy_PT), temperatures, resampling)


def _estimate(
    gap: Gap, problems: int, temperatures: Sequence[float], resampling: Resampling
) -> EqualAccuracy | NotReached:
    """Return the estimate of `_resampled` rows: all problems, without each of them, resampled."""
    difference = float(gap.difference_R[0])
    if np.isnan(difference):
        return NotReached("no point of a curve reaches it")
    rest = slice(1 + problems, None)
    unreached = int(np.isnan(gap.difference_R[rest]).sum())
    left_out_P = gap.difference_R[1 : rest.start]
    # Resamples that miss the target are not a random choice: an interval of the others alone would
    # be too narrow, so only a few may be missing.
    if unreached > UNREACHED_SHARE * resampling.resamples or np.isnan(left_out_P).any():
        return NotReached(f"{unreached:,} of {resampling.resamples:,} resamples don't reach it")
    half, p = _half_width(
        problems * difference - (problems - 1) * left_out_P, difference, resampling
    )
    return EqualAccuracy(
        accuracy=float(gap.target_R[0]),
        difference=difference,
        low=max(difference - half, -1.0),
        high=min(difference + half, 1.0),
        p=p,
        at=_temperature(temperatures, float(gap.place_R[0])),
        other_at=_temperature(temperatures, float(gap.other_place_R[0])),
        unreached=unreached,
        resamples=resampling.resamples,
    )


def _check_equal_shapes(policy: Points, other: Points) -> None:
    shapes = {points.accuracy_PT.shape for points in (policy, other)}
    if len(shapes) > 1 or len(policy.accuracy_PT) < 2:
        raise MetricError(
            f"curves have the shapes {', '.join(map(str, sorted(shapes)))} of problems and "
            "temperatures",
            "measure both on the same two or more problems, at the same temperatures",
        )


def _resampled(
    policy: Points, other: Points, target_P: FloatArray | None, resampling: Resampling
) -> tuple[tuple[_Curve, _Curve], FloatArray | None]:
    """Return two curves and the target on all problems, without each of them, and resampled."""
    _check_equal_shapes(policy, other)
    values = [part for points in (policy, other) for part in (points.accuracy_PT, points.pass_k_PT)]
    target_PX = np.zeros((len(values[0]), 1)) if target_P is None else target_P[:, None]
    columns_PC = np.concatenate([*values, target_PX], axis=1)
    mean_C = columns_PC.mean(axis=0)
    # The mean without problem i, from the mean of all, for every problem at once.
    without_PC = mean_C + (mean_C - columns_PC) / (len(columns_PC) - 1)
    drawn_RC = resampled_means(columns_PC, resampling)
    rows_RC = np.concatenate([mean_C[None], without_PC, drawn_RC])
    own_1_RT, own_k_RT, other_1_RT, other_k_RT = np.split(rows_RC[:, :-1], len(values), axis=1)
    target_R = None if target_P is None else rows_RC[:, -1]
    return ((own_1_RT, own_k_RT), (other_1_RT, other_k_RT)), target_R


def _half_width(
    pseudo_P: FloatArray, difference: float, resampling: Resampling
) -> tuple[float, float]:
    """Return half the interval's width and the p-value of "no difference"."""
    if np.ptp(pseudo_P) < NO_CHANGE:  # all problems alike: nothing varies
        return 0.0, float(abs(difference) < NO_CHANGE)
    interval = studentised(pseudo_P[:, None], resampling)
    return float(interval.high_K[0] - interval.low_K[0]) / 2, float(interval.p_K[0])


def _temperature(temperatures: Sequence[float], position: float) -> float:
    return float(np.interp(position, np.arange(len(temperatures)), temperatures))
