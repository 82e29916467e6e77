"""pass@k at equal pass@1, with its interval, for policies that are curves and not points.

A lower temperature raises pass@1 and lowers pass@k, as training does. So a policy is a curve of
(pass@1, pass@k), over temperatures or along its training's steps, and is compared with others where
all have the same pass@1 (`hull.py`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from sage_cli.errors import MetricError
from sage_cli.metrics.comparisons.hull import (
    Curve,
    HullGap,
    gap_along_steps,
    gap_over_temperatures,
)
from sage_cli.metrics.comparisons.seed_noise import error_over
from sage_cli.metrics.counts import FloatArray
from sage_cli.metrics.intervals.distributions import two_sided_p, two_sided_reach
from sage_cli.metrics.intervals.interval import Resampling
from sage_cli.metrics.intervals.resampling import resampled_means, studentised

UNREACHED_SHARE = 0.05
"""An interval is refused where more of the resamples than this share don't reach the target."""


@dataclass(frozen=True, eq=False)
class Points:
    """pass@1 and pass@k of each problem, both (S, P, X): seeds, problems, temperatures or steps."""

    accuracy_SPX: FloatArray
    pass_k_SPX: FloatArray

    @classmethod
    def of(cls, accuracy: FloatArray, pass_k: FloatArray) -> Points:
        """Return the points of arrays (P, X) of one seed, or (S, P, X) of several."""
        one = accuracy.ndim == 2
        return cls(accuracy[None], pass_k[None]) if one else cls(accuracy, pass_k)


@dataclass(frozen=True)
class EqualAccuracy:
    """pass@k of a policy less that of the best of others, where both have `accuracy` for pass@1.

    Of several seeds all numbers are means, and `by_seed` has the difference of each. `at` and
    `best_at` are the temperatures or steps, interpolated, at which the policy and the `best` of the
    others have that pass@1. `unreached` of `resamples` do not reach it.
    """

    accuracy: float
    difference: float
    low: float
    high: float
    p: float
    at: float
    best: int
    best_at: float
    by_seed: tuple[float, ...]
    unreached: int
    resamples: int


@dataclass(frozen=True)
class NotReached:
    """The reason why policies can't be compared at equal pass@1."""

    reason: str


def equal_accuracy(
    policy: Points,
    others: Sequence[Points],
    places: FloatArray,
    at: int | None,
    how: Resampling,
) -> EqualAccuracy | NotReached:
    """Return the policy's pass@k less the best of the others' at equal pass@1.

    `places` are ascending temperatures, the `at`-th of which is the evaluation's; or, where `at` is
    None, steps. Seeds are pairs: the s-th of the policy is compared with the s-th of the others.
    The interval is about other problems of the kind, and with several seeds about other seeds: it
    is that of a mean, of the problems' jackknife pseudo-values, so targets and places are found
    again without each problem. With one seed it is a bootstrap-t interval, with several Student's
    t with the error of `error_over`. NotReached where the pass@1 isn't reached, or more than
    `UNREACHED_SHARE` of resampled problems don't reach it.
    """
    _refuse_unequal(policy, others)
    seeds, problems, _ = policy.accuracy_SPX.shape
    gaps = [_gap(policy, others, s, at, how) for s in range(seeds)]
    found_S = np.array([gap.difference_R[0] for gap in gaps])
    if np.isnan(found_S).any():
        return NotReached("no temperature reaches it" if at is not None else "no step reaches it")
    rest = slice(1 + problems, None)
    unreached = int(np.isnan([gap.difference_R[rest] for gap in gaps]).any(axis=0).sum())
    left_out_SP = np.stack([gap.difference_R[1 : rest.start] for gap in gaps])
    if unreached > UNREACHED_SHARE * how.resamples or np.isnan(left_out_SP).any():
        return NotReached(f"{unreached:,} of {how.resamples:,} resamples don't reach it")
    pseudo_SP = problems * found_S[:, None] - (problems - 1) * left_out_SP
    difference = float(found_S.mean())
    half, p = _half_width(pseudo_SP, difference, how)
    best = [int(gap.best_R[0]) for gap in gaps]
    return EqualAccuracy(
        accuracy=float(np.mean([gap.target_R[0] for gap in gaps])),
        difference=difference,
        low=max(difference - half, -1.0),
        high=min(difference + half, 1.0),
        p=p,
        at=_mean_place(places, [gap.place_R[0] for gap in gaps]),
        best=max(set(best), key=best.count),
        best_at=_mean_place(places, [gap.best_place_R[0] for gap in gaps]),
        by_seed=tuple(map(float, found_S)),
        unreached=unreached,
        resamples=how.resamples,
    )


def _refuse_unequal(policy: Points, others: Sequence[Points]) -> None:
    shapes = {one.accuracy_SPX.shape for one in (policy, *others)}
    if len(shapes) > 1 or policy.accuracy_SPX.shape[1] < 2:
        raise MetricError(
            f"curves have the shapes {', '.join(map(str, sorted(shapes)))} of seeds, problems and "
            "points",
            "measure all with the same seeds, on the same two or more problems, at the same points",
        )


def _gap(
    policy: Points, others: Sequence[Points], s: int, at: int | None, how: Resampling
) -> HullGap:
    """Return the gaps of a seed: on all problems, without each of them, and on resampled ones."""
    values = [part[s] for one in (policy, *others) for part in (one.accuracy_SPX, one.pass_k_SPX)]
    columns_PC = np.concatenate(values, axis=1)
    problems = len(columns_PC)
    mean_C = columns_PC.mean(axis=0)
    without_PC = mean_C + (mean_C - columns_PC) / (problems - 1)
    drawn_RC = resampled_means(columns_PC, how)
    parts = np.split(np.concatenate([mean_C[None], without_PC, drawn_RC]), len(values), axis=1)
    curves: list[Curve] = list(zip(parts[::2], parts[1::2], strict=True))
    if at is None:
        return gap_along_steps(curves[0], curves[1:])
    return gap_over_temperatures(curves[0], curves[1:], at)


def _half_width(pseudo_SP: FloatArray, difference: float, how: Resampling) -> tuple[float, float]:
    """Return half the interval's width and the p-value of "no difference"."""
    if len(pseudo_SP) == 1:
        found = studentised(pseudo_SP.T, how)
        if np.ptp(pseudo_SP) < 1e-12:  # all problems alike: nothing varies
            return 0.0, float(abs(difference) < 1e-12)
        return float(found.high_K[0] - found.low_K[0]) / 2, float(found.p_K[0])
    pairs = pseudo_SP[..., None], np.zeros((1, pseudo_SP.shape[1], 1))
    (error,), (freedom,) = error_over([pairs])
    if error == 0:
        return 0.0, float(abs(difference) < 1e-12)
    (p,) = two_sided_p(np.array([difference / error]), np.array([freedom]))
    return float(two_sided_reach(1 - how.confidence, freedom) * error), float(p)


def _mean_place(places_X: FloatArray, found: Sequence[float]) -> float:
    return float(np.interp(found, np.arange(len(places_X)), places_X).mean())
