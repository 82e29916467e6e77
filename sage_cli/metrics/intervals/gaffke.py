"""Gaffke's confidence bounds for the mean of bounded values, whatever their distribution.

Gaffke 2004; Learned-Miller and Thomas 2020, https://arxiv.org/abs/1905.06208. The values get
Dirichlet(1, ..., 1) weights together with one value more, which stands for the unseen: the
smallest possible one for the lower bound, the largest for the upper. The bounds are quantiles of
the weighted means. Their coverage is proven for special cases and found in every simulation; no
bound that holds for all bounded distributions is known to be narrower at usual sizes.
"""

from __future__ import annotations

import numpy as np

from sage_cli.metrics.counts import FloatArray
from sage_cli.metrics.intervals.interval import BLOCK, Interval, in_columns, ranked, tail_rank

Bounds = tuple[float, float]


def gaffke(
    values_PK: FloatArray, bounds: Bounds, *, confidence: float, resamples: int, seed: int
) -> Interval:
    """Equal-tailed intervals of the K means of P values within `bounds`; all K share the weights.

    NaN where there is one problem only.
    """
    P, K = values_PK.shape
    if P < 2:
        return Interval(*np.full((3, K), np.nan))

    def of(columns: slice) -> Interval:
        return _gaffke(values_PK[:, columns], bounds, (1 - confidence) / 2, resamples, seed)

    return in_columns(of, K, BLOCK // resamples)


def _gaffke(
    values_PK: FloatArray, bounds: Bounds, tail: float, resamples: int, seed: int
) -> Interval:
    rank, (lowest, highest) = tail_rank(tail, resamples), bounds
    means_RK, unseen_R1 = weighted_means(values_PK, resamples=resamples, seed=seed)
    below_RK, above_RK = means_RK + lowest * unseen_R1, means_RK + highest * unseen_R1
    far_K = np.minimum((below_RK <= 0).sum(axis=0), (above_RK >= 0).sum(axis=0))
    p_K = np.minimum(1.0, 2 * (far_K + 1) / (resamples + 1))
    simulated = ranked(below_RK, rank), ranked(above_RK, -rank), p_K
    equal_K = (values_PK == values_PK[0]).all(axis=0)
    exact = _of_one_value(values_PK[0], bounds, tail, len(values_PK))
    return Interval(*np.where(equal_K, exact, simulated))


def weighted_means(
    values_PK: FloatArray, *, resamples: int, seed: int
) -> tuple[FloatArray, FloatArray]:
    """Sums of values times weights, shape (R, K), and the weight left for the unseen, (R, 1)."""
    generator = np.random.default_rng(seed)
    P, K = values_PK.shape
    means_RK, unseen_R1 = np.empty((resamples, K)), np.empty((resamples, 1))
    block = max(1, BLOCK // (P + 1))
    for start in range(0, resamples, block):
        rows = slice(start, min(start + block, resamples))
        weights = generator.standard_exponential((rows.stop - start, P + 1))
        weights /= weights.sum(axis=1, keepdims=True)
        means_RK[rows] = weights[:, :P] @ values_PK
        unseen_R1[rows] = weights[:, P:]
    return means_RK, unseen_R1


def _of_one_value(value_K: FloatArray, bounds: Bounds, tail: float, problems: int) -> FloatArray:
    """Ends and p where all values are equal, (3, K), in closed form: their weight is Beta(P, 1).

    A share s of the population that differs goes unseen with probability (1 - s)^P; where that
    is `tail`, s is the weight of the extreme value (at 95 % about 3.7 / P).
    """
    (lowest, highest), seen = bounds, tail ** (1 / problems)
    # the share of the values at which their mean with the extreme one is 0
    up_K = np.divide(-lowest, value_K - lowest, out=np.ones_like(value_K), where=value_K > 0)
    down_K = np.divide(highest, highest - value_K, out=np.ones_like(value_K), where=value_K < 0)
    p_K = np.minimum(1.0, 2 * np.minimum(up_K, down_K) ** problems)
    return np.stack([lowest + seen * (value_K - lowest), highest - seen * (highest - value_K), p_K])
