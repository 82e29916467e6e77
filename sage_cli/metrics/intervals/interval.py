"""Confidence intervals of means, one per column, each with the p-value that agrees with it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import astuple, dataclass
from math import floor

import numpy as np

from sage_cli.errors import MetricError
from sage_cli.metrics.counts import FloatArray

BLOCK = 4_000_000
"""Numbers that a computation holds at once, at most: 32 MB."""


@dataclass(frozen=True)
class Resampling:
    """How intervals are computed: with equal settings the same data give the same interval."""

    confidence: float = 0.95
    resamples: int = 2000
    seed: int = 0


USUAL = Resampling()


@dataclass(frozen=True, eq=False)
class Interval:
    """Ends of the intervals, shape (K,), and p-values of "the mean is 0", two-sided.

    0 lies outside of an interval with confidence 1 - alpha exactly where p is at most alpha.
    """

    low_K: FloatArray
    high_K: FloatArray
    p_K: FloatArray


def narrower(a: Interval, b: Interval) -> Interval:
    """The part that both intervals share; it excludes 0 where either of them does."""
    return Interval(
        np.maximum(a.low_K, b.low_K), np.minimum(a.high_K, b.high_K), np.minimum(a.p_K, b.p_K)
    )


def wider(a: Interval, b: Interval) -> Interval:
    """The interval that contains both; it excludes 0 where both of them do."""
    return Interval(
        np.minimum(a.low_K, b.low_K), np.maximum(a.high_K, b.high_K), np.maximum(a.p_K, b.p_K)
    )


def tail_rank(alpha: float, resamples: int) -> int:
    """The number of values in a tail of `alpha`, of `resamples` draws and one observed value.

    The draw of this rank bounds a tail of at most `alpha`: with the observed value counted among
    them, p-values are never 0 and a test of level alpha rejects no more often (Davison and
    Hinkley 1997, section 4.2). Raises MetricError where the tail is less than one draw.
    """
    rank = floor(alpha * (resamples + 1) + 1e-9)
    if rank < 1:
        raise MetricError(
            f"{resamples} resamples are too few for a tail of {alpha:g}",
            f"set evaluation.bootstrap to {int(np.ceil(1 / alpha))} or more",
        )
    return rank


def ranked(draws_RK: FloatArray, rank: int) -> FloatArray:
    """The draw of that rank in every column, shape (K,): 1 the smallest, -1 the largest."""
    place = rank - 1 if rank > 0 else rank
    # rows that lie together in memory are partitioned three times as fast
    draw_K: FloatArray = np.partition(draws_RK.T.copy(), place, axis=1)[:, place]
    return draw_K


def in_columns(of: Callable[[slice], Interval], K: int, width: int) -> Interval:
    """`of` applied to `width` columns at a time, so that its memory doesn't grow with K."""
    width = max(1, width)
    parts = [of(slice(start, start + width)) for start in range(0, max(1, K), width)]
    return Interval(*map(np.concatenate, zip(*map(astuple, parts), strict=True)))
