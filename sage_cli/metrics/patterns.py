"""How often right solutions show a reasoning pattern (Eq. 13)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from sage_cli.errors import MetricError
from sage_cli.metrics.counts import whole
from sage_cli.metrics.resampling import mean_interval


@dataclass(frozen=True)
class Frequency:
    """A mean over the `problems` that were solved at least once, and its interval."""

    mean: float
    low: float
    high: float
    problems: int


def pattern_frequency(
    shown: ArrayLike,
    right: ArrayLike,
    *,
    confidence: float = 0.95,
    resamples: int = 2000,
    seed: int = 0,
) -> Frequency:
    """Mean over solved problems of (right solutions that show the pattern / right solutions).

    `shown` and `right` count solutions per problem. NaN where no problem was solved. The
    interval resamples problems.
    """
    shown_P, right_P = whole(shown, "shown"), whole(right, "right")
    if shown_P.shape != right_P.shape or right_P.ndim != 1:
        raise MetricError(f"shown has shape {shown_P.shape}, right {right_P.shape}")
    if ((shown_P < 0) | (shown_P > right_P)).any():
        raise MetricError("more solutions show the pattern than are right")
    solved = right_P > 0
    if not solved.any():
        return Frequency(np.nan, np.nan, np.nan, 0)
    share_P1 = (shown_P[solved] / right_P[solved])[:, None]
    low, high = mean_interval(
        share_P1, (0, 1), confidence=confidence, resamples=resamples, seed=seed
    )
    return Frequency(float(share_P1.mean()), float(low[0]), float(high[0]), int(solved.sum()))
