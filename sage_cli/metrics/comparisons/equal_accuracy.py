"""pass@k at equal pass@1, for policies that are curves over temperatures and not points.

A lower temperature raises pass@1 and lowers pass@k, as training does. So a policy is a curve of
(pass@1, pass@k), and two of them are compared where both have the same pass@1.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from sage_cli.errors import MetricError
from sage_cli.metrics.counts import FloatArray
from sage_cli.metrics.intervals.bootstrap import resampled_means


@dataclass(frozen=True)
class EqualAccuracy:
    """pass@k of one policy less another's where both have `accuracy` for pass@1.

    `temperatures` are those at which they have it, interpolated.
    """

    accuracy: float
    difference: float
    low: float
    high: float
    temperatures: tuple[float, float]


def equal_accuracy(
    first: tuple[FloatArray, FloatArray],
    second: tuple[FloatArray, FloatArray],
    temperatures: FloatArray,
    *,
    confidence: float,
    resamples: int,
    seed: int,
) -> EqualAccuracy:
    """Return the second policy's pass@k less the first's at equal pass@1, over temperatures.

    Each policy is its problems' pass@1 and pass@k, both (P, T), at ascending `temperatures`, the
    first of which is where they are to be compared. There the policy of the lower pass@1 is taken,
    and the other one at the higher temperature that gives it the same; pass@k is interpolated
    linearly. The interval resamples problems, with target and temperatures found again. Raises
    MetricError if no temperature is high enough, for the problems as they are.
    """
    columns = np.concatenate([*first, *second], axis=1)
    (found,) = _compared(columns.mean(axis=0)[None], temperatures)
    if np.isnan(found).any():
        raise MetricError(
            "the policies do not reach the same pass@1 at these temperatures",
            "name higher temperatures, as --temperature 1,1.1,1.2,1.4,1.6",
        )
    means = resampled_means(columns, resamples=resamples, seed=seed)
    differences = _compared(means, temperatures)[:, 1]
    tail = (1 - confidence) / 2
    low, high = np.nanquantile(differences, [tail, 1 - tail])
    accuracy, difference, *reached = (float(value) for value in found)
    return EqualAccuracy(accuracy, difference, float(low), float(high), (reached[0], reached[1]))


def _compared(means_RC: FloatArray, temperatures: FloatArray) -> FloatArray:
    """Return accuracy, difference and both temperatures, (R, 4); NaN where it isn't reached."""
    T = len(temperatures)
    curves = [means_RC[:, place * T : (place + 1) * T] for place in range(4)]
    target_R = np.minimum(curves[0][:, 0], curves[2][:, 0])
    pass_k, reached = [], []
    for accuracy_RT, pass_k_RT in (curves[:2], curves[2:]):
        place_R, share_R = _crossing(accuracy_RT, target_R)
        pass_k.append(_between(pass_k_RT, place_R, share_R))
        grid_RT = np.broadcast_to(temperatures, accuracy_RT.shape)
        reached.append(_between(grid_RT, place_R, share_R))
    return np.stack([target_R, pass_k[1] - pass_k[0], *reached], axis=1)


def _crossing(accuracy_RT: FloatArray, target_R: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return the first segment that reaches down to the target, and where in it; NaN for none."""
    reached_RT = accuracy_RT <= target_R[:, None]
    place_R = reached_RT.argmax(axis=1)
    rows = np.arange(len(accuracy_RT))
    before_R = np.maximum(place_R - 1, 0)
    high_R, low_R = accuracy_RT[rows, before_R], accuracy_RT[rows, place_R]
    fall_R = np.where(high_R > low_R, high_R - low_R, 1.0)
    share_R = np.where(place_R > 0, (high_R - target_R) / fall_R, 0.0)
    return before_R, np.where(reached_RT.any(axis=1), share_R, np.nan)


def _between(values_RT: FloatArray, place_R: FloatArray, share_R: FloatArray) -> FloatArray:
    """Return the values interpolated between a place and the next."""
    rows, last = np.arange(len(values_RT)), values_RT.shape[1] - 1
    next_R = np.minimum(place_R + 1, last)
    here_R, there_R = values_RT[rows, place_R], values_RT[rows, next_R]
    found: FloatArray = here_R + share_R * (there_R - here_R)
    return found
