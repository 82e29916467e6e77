"""Confidence intervals of means, and the band of pass@k with the sources of its variance."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import astuple, dataclass, field
from functools import lru_cache
from math import floor

import numpy as np
from numpy.typing import ArrayLike

from sage_cli.errors import MetricError
from sage_cli.metrics.counts import Evaluations, each_seed
from sage_cli.metrics.estimators import FloatArray, IntArray

BLOCK = 4_000_000
"""Numbers that a computation holds at once, at most: 32 MB."""
ROUNDING = 1e-12
"""A variance that is this share of the squares is rounding."""
Bounds = tuple[float, float]


def two_sided_p(t_K: FloatArray, freedom_K: FloatArray) -> FloatArray:
    """The probability that |T| is at least |t|, T with `freedom` degrees of freedom."""
    from scipy.special import stdtr

    return np.asarray(2 * stdtr(freedom_K, -np.abs(t_K)))


def two_sided_reach(alpha: ArrayLike, freedom_K: ArrayLike) -> FloatArray:
    """The t that |T| exceeds with probability `alpha`: 2.776 for 5% and 4 degrees of freedom."""
    from scipy.special import stdtrit

    return np.asarray(-stdtrit(freedom_K, np.asarray(alpha) / 2))


def log_choose(n: ArrayLike, k: ArrayLike) -> FloatArray:
    """The logarithm of the number of k-subsets of n things; the arguments broadcast."""
    from scipy.special import gammaln

    n_, k_ = np.asarray(n), np.asarray(k)
    return np.asarray(gammaln(n_ + 1) - gammaln(k_ + 1) - gammaln(n_ - k_ + 1))


@lru_cache(maxsize=4096)
def fair_binomial(n: int) -> tuple[IntArray, FloatArray]:
    """The counts 0 to n and their probabilities under Binomial(n, 1/2), shape (C,) each."""
    count_C = np.arange(n + 1)
    return count_C, np.exp(log_choose(n, count_C) - n * np.log(2))


@lru_cache(maxsize=4096)
def hypergeometric(n: int, rest: int, right: int) -> tuple[IntArray, FloatArray]:
    """Correct ones among the first n of n + `rest` samples, `right` of which are correct.

    The possible counts and their probabilities, shape (C,) each.
    """
    count_C = np.arange(max(0, right - rest), min(n, right) + 1)
    # in logarithms, because binomials of 512 samples overflow; the largest is subtracted before
    # exp, and the sum normalises, so that the constant C(n + rest, right) is never computed
    logs_C = log_choose(n, count_C) + log_choose(rest, right - count_C)
    chance_C = np.exp(logs_C - logs_C.max())
    return count_C, chance_C / chance_C.sum()


def beta_binomial_logs(a: float, b: float, n_U: IntArray, c_U: IntArray) -> FloatArray:
    """The log-probability of one sequence with c correct ones of n, its chance from Beta(a, b)."""
    from scipy.special import betaln

    return np.asarray(betaln(a + c_U, b + n_U - c_U) - betaln(a, b))


def holm(p: ArrayLike) -> FloatArray:
    """Holm's adjusted p-values, in the order and shape of `p` (Holm 1979, Scand. J. Statist. 6).

    The m-th smallest of M is multiplied by M - m + 1, and none is smaller than one before it.
    Rejecting where the adjusted value is at most alpha rejects any true hypothesis with
    probability alpha at most, however the tests depend on each other. NaN is not a test: it stays
    NaN and isn't counted.
    """
    adjusted = np.array(p, float)
    defined = ~np.isnan(adjusted)
    values = adjusted[defined]
    order = np.argsort(values, kind="stable")
    # the running maximum keeps the adjusted values in the order of the raw ones: a test is not
    # rejected if one with a smaller p is not
    stepped = np.maximum.accumulate(values[order] * np.arange(len(values), 0, -1))
    values[order] = np.minimum(stepped, 1.0)
    adjusted[defined] = values
    return adjusted


@dataclass(frozen=True)
class Resampling:
    """How intervals are computed: with equal settings the same data give the same interval.

    `clusters` has for each problem the name of its cluster; problems are then drawn by clusters.
    """

    confidence: float = 0.95
    resamples: int = 2000
    seed: int = 0
    clusters: Mapping[str, str] | None = field(default=None, hash=False)

    def drawn_units(self, values_PK: FloatArray, problem_ids: Sequence[str]) -> FloatArray:
        """Return what is drawn at random, (P or C, K): the problems' values, or their clusters'.

        Rows of `values_PK` (runs may come before them, as in (I, P, K)) are in the order of sorted
        ids, as `pass_matrix` has them. A cluster's value is the mean over all problems plus
        C / P times the sum of its problems' deviations from it. So the clusters' mean is the
        problems' mean, and their variance over C the usual cluster-robust variance of it,
        C / (C - 1) times the sum of squared sums of deviations over P^2.

        Raises MetricError for a problem without a cluster, and for fewer than two clusters.
        """
        if self.clusters is None:
            return values_PK
        ids = sorted(problem_ids)
        if lacking := [id_ for id_ in ids if id_ not in self.clusters]:
            raise MetricError(f"problem '{lacking[0]}' is in no cluster")
        names = sorted({self.clusters[id_] for id_ in ids})
        if len(names) < 2:
            raise MetricError(
                f"all {len(ids)} problems are one cluster, which says nothing about others",
                "leave out --cluster, or name another field",
            )
        # a matrix of 0 and 1 that sums over each cluster's problems
        member_CP = np.array([[self.clusters[id_] == name for id_ in ids] for name in names], float)
        mean = values_PK.mean(axis=-2, keepdims=True)
        share = len(names) / len(ids)
        return np.asarray(mean + share * (member_CP @ (values_PK - mean)))


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


def clip_interval(interval: Interval, bounds: tuple[float, float]) -> Interval:
    """The part of the interval that is possible."""
    low_K, high_K = np.clip([interval.low_K, interval.high_K], *bounds)
    return Interval(low_K, high_K, interval.p_K)


def tail_rank(alpha: float, resamples: int) -> int:
    """The number of values in a tail of `alpha`, of `resamples` draws and one observed value.

    The draw of this rank bounds a tail of at most `alpha`: with the observed value counted among
    them, p-values are never 0 and a test of level alpha rejects no more often (Davison and
    Hinkley 1997, section 4.2). Raises MetricError where the tail is less than one draw.
    """
    # rounding must not turn a whole number such as 50 into 49.999…
    rank = floor(alpha * (resamples + 1) + 1e-9)
    if rank < 1:
        raise MetricError(
            f"{resamples} resamples are too few for a tail of {alpha:g}",
            f"set evaluation.bootstrap to {int(np.ceil(1 / alpha))} or more",
        )
    return rank


def ranked(draws_RK: FloatArray, rank: int) -> FloatArray:
    """The draw of that rank in every column, shape (K,): 1 the smallest, -1 the largest."""
    index = rank - 1 if rank > 0 else rank
    # rows that lie together in memory are partitioned three times as fast
    draw_K: FloatArray = np.partition(draws_RK.T.copy(), index, axis=1)[:, index]
    return draw_K


def in_columns(interval: Callable[[slice], Interval], K: int, width: int) -> Interval:
    """`interval` applied to `width` columns at a time, so that its memory doesn't grow with K."""
    width = max(1, width)
    parts = [interval(slice(start, start + width)) for start in range(0, max(1, K), width)]
    return Interval(*map(np.concatenate, zip(*map(astuple, parts), strict=True)))


def drawn_times(
    problems: int, draws: int, resampling: Resampling
) -> Iterator[tuple[slice, FloatArray]]:
    """Count how often each of P problems is drawn in `draws` draws with replacement.

    Yields rows of the resamples with an array (rows, P), blocks that fit in memory.
    """
    generator = np.random.default_rng(resampling.seed)
    block = max(1, BLOCK // problems)
    for start in range(0, resampling.resamples, block):
        rows = min(block, resampling.resamples - start)
        drawn = generator.integers(0, problems, size=(rows, draws))
        # each resample gets numbers of its own, so that one bincount counts all rows
        drawn += np.arange(rows)[:, None] * problems
        times = np.bincount(drawn.ravel(), minlength=rows * problems).reshape(rows, problems)
        yield slice(start, start + rows), times.astype(float)


def resampled_means(values_PK: FloatArray, resampling: Resampling) -> FloatArray:
    """Means over resampled problems, shape (R, K); all K columns share their resamples.

    P - 1 of P problems are drawn with replacement, not P: the variance of the means is then
    s^2 / P with the unbiased s^2, while P draws give (P - 1) / P of it (McCarthy 1969;
    Hesterberg 2015, section 3.2).
    """
    P, K = values_PK.shape
    means_RK = np.empty((resampling.resamples, K))
    for rows, times in drawn_times(P, P - 1, resampling):
        means_RK[rows] = times @ values_PK / (P - 1)
    return means_RK


def studentised(values_PK: FloatArray, resampling: Resampling) -> Interval:
    """Symmetric bootstrap-t intervals of the K means (Hall 1988; Davison and Hinkley 1997, 5.2).

    Each resample of the P problems has its own standard error; the interval reaches as many
    standard errors to both sides as the resampled means are away from the mean. Where few
    problems tell the mean from 0, many resamples have no variance: the interval is then the whole
    line, because the sample can't carry one.
    """

    def interval(columns: slice) -> Interval:
        return _studentised(values_PK[:, columns], resampling)

    return in_columns(interval, values_PK.shape[1], BLOCK // resampling.resamples)


def _studentised(values_PK: FloatArray, resampling: Resampling) -> Interval:
    P, K = values_PK.shape
    mean_K = values_PK.mean(axis=0)
    centred_PK = values_PK - mean_K
    squares_PK = centred_PK**2
    error_K = np.sqrt(squares_PK.sum(axis=0) / (P - 1) / P)
    distance_RK = np.empty((resampling.resamples, K))
    for rows, times in drawn_times(P, P, resampling):
        shift = times @ centred_PK / P
        square = times @ squares_PK / P
        variance = square - shift**2
        # a variance that is rounding would give an enormous t, and with it an interval of any width
        known = variance > ROUNDING * square
        error = np.sqrt(np.where(known, variance, 1) / (P - 1))
        # a resample without variance is infinitely many standard errors away
        distance_RK[rows] = np.where(known, np.abs(shift) / error, np.inf)
    # symmetric: one quantile of |t|, whose coverage error is of order 1/n^2, while two tails apart
    # err by 1/n (Hall 1988)
    reach_K = ranked(distance_RK, -tail_rank(1 - resampling.confidence, resampling.resamples))
    varied_K = error_K > 0
    observed_K = np.divide(np.abs(mean_K), error_K, out=np.zeros(K), where=varied_K)
    # the observed value counts as a draw, so p is never 0; with the same rank as the interval, p <=
    # alpha exactly where the interval excludes 0
    p_K = ((distance_RK >= observed_K).sum(axis=0) + 1) / (resampling.resamples + 1)
    half_K = np.where(varied_K, reach_K * np.where(varied_K, error_K, 1), np.inf)
    return Interval(mean_K - half_K, mean_K + half_K, np.where(varied_K, p_K, 1.0))


def gaffke(values_PK: FloatArray, bounds: Bounds, resampling: Resampling) -> Interval:
    """Equal-tailed intervals of the K means of P values within `bounds`; all K share the weights.

    NaN where there is one problem only.
    """
    P, K = values_PK.shape
    if P < 2:
        return Interval(*np.full((3, K), np.nan))

    def interval(columns: slice) -> Interval:
        return _gaffke(values_PK[:, columns], bounds, resampling)

    return in_columns(interval, K, BLOCK // resampling.resamples)


def _gaffke(values_PK: FloatArray, bounds: Bounds, resampling: Resampling) -> Interval:
    tail, (lowest, highest) = (1 - resampling.confidence) / 2, bounds
    rank = tail_rank(tail, resampling.resamples)
    means_RK, unseen_R1 = weighted_means(values_PK, resampling)
    # the unseen weight is put at the worst possible value for each bound: this is what makes it
    # hold for every distribution within the bounds
    below_RK, above_RK = means_RK + lowest * unseen_R1, means_RK + highest * unseen_R1
    # the smaller tail, doubled: equal-tailed, as the interval is
    far_K = np.minimum((below_RK <= 0).sum(axis=0), (above_RK >= 0).sum(axis=0))
    p_K = np.minimum(1.0, 2 * (far_K + 1) / (resampling.resamples + 1))
    simulated = ranked(below_RK, rank), ranked(above_RK, -rank), p_K
    # simulation of a Beta(P, 1) tail by 2000 draws is needlessly noisy where the closed form is
    # known; a pass@k of 0 or 1 on all problems is common
    equal_K = (values_PK == values_PK[0]).all(axis=0)
    exact = _of_one_value(values_PK[0], bounds, tail, len(values_PK))
    return Interval(*np.where(equal_K, exact, simulated))


def weighted_means(values_PK: FloatArray, resampling: Resampling) -> tuple[FloatArray, FloatArray]:
    """Sums of values times weights, shape (R, K), and the weight left for the unseen, (R, 1)."""
    generator = np.random.default_rng(resampling.seed)
    (P, K), resamples = values_PK.shape, resampling.resamples
    means_RK, unseen_R1 = np.empty((resamples, K)), np.empty((resamples, 1))
    block = max(1, BLOCK // (P + 1))
    for start in range(0, resamples, block):
        rows = slice(start, min(start + block, resamples))
        # exponentials divided by their sum are uniform on the simplex: the spacings of P ordered
        # uniform numbers, as in Gaffke's statistic
        weights = generator.standard_exponential((rows.stop - start, P + 1))
        weights /= weights.sum(axis=1, keepdims=True)
        means_RK[rows] = weights[:, :P] @ values_PK
        unseen_R1[rows] = weights[:, P:]
    return means_RK, unseen_R1


def _of_one_value(value_K: FloatArray, bounds: Bounds, tail: float, problems: int) -> FloatArray:
    """Ends and p where all values are equal, (3, K), in closed form: their weight is Beta(P, 1).

    A share s of the population that differs goes unseen with probability (1 - s)^P; where that
    is `tail`, s is the weight of the extreme value (at 95% about 3.7 / P).
    """
    (lowest, highest), seen = bounds, tail ** (1 / problems)
    # the share of the values at which their mean with the extreme one is 0
    up_K = np.divide(-lowest, value_K - lowest, out=np.ones_like(value_K), where=value_K > 0)
    down_K = np.divide(highest, highest - value_K, out=np.ones_like(value_K), where=value_K < 0)
    p_K = np.minimum(1.0, 2 * np.minimum(up_K, down_K) ** problems)
    return np.stack([lowest + seen * (value_K - lowest), highest - seen * (highest - value_K), p_K])


@dataclass(frozen=True, eq=False)
class Curve:
    """Mean pass@k over problems at each k, and a band, NaN where there is one problem only.

    At each k the band holds, with `confidence`, the mean pass@k over the population that the
    problems were drawn from: the result of other problems of the kind and other samples.
    """

    ks: tuple[int, ...]
    mean_K: FloatArray
    low_K: FloatArray
    high_K: FloatArray
    confidence: float
    problems: int

    def at(self, k: int) -> tuple[float, float, float]:
        """Mean, low and high at one k of the curve."""
        if k not in self.ks:
            raise MetricError(f"this curve has no k = {k}")
        column = self.ks.index(k)
        return float(self.mean_K[column]), float(self.low_K[column]), float(self.high_K[column])


def pass_matrix(counts: Evaluations, ks: Sequence[int]) -> FloatArray:
    """pass@k per problem in the order of their ids, (P, K), averaged over seeds if several.

    Of counts with another statistic it is that one's values.

    Seeds are averaged after estimating, not pooled before, so that each seed is one evaluation.
    Resampled problems are drawn by their place: in the order of ids, intervals don't depend on the
    order in which a file has its problems.
    """
    seeds = each_seed(counts)
    if not seeds or not len(seeds[0]):
        raise MetricError("no problem was counted, so there is no pass@k")
    ids = sorted(seeds[0].problem_ids)
    ordered = [seed.ordered(ids) for seed in seeds]
    mean_PK: FloatArray = np.add.reduce([seed.values_at(ks) for seed in ordered]) / len(seeds)
    return mean_PK


def curve(counts: Evaluations, ks: Sequence[int], resampling: Resampling = USUAL) -> Curve:
    """Estimate pass@k at every k; the band is Gaffke's bound over problems.

    Over clusters it is bootstrap-t, since Gaffke's bounds assume independent values between 0 and
    1, and sums over clusters are neither. Samples are never resampled: that puts a correct one back
    twice and leaves another out, which biases pass@k downwards when k is near n. The problems'
    values vary by sampling already.
    """
    pass_PK = pass_matrix(counts, ks)
    if resampling.clusters is None:
        band = gaffke(pass_PK, (0, 1), resampling)
    else:
        units_CK = resampling.drawn_units(pass_PK, each_seed(counts)[0].problem_ids)
        band = clip_interval(studentised(units_CK, resampling), (0, 1))
    mean_K, P = pass_PK.mean(axis=0), len(pass_PK)
    return Curve(tuple(map(int, ks)), mean_K, band.low_K, band.high_K, resampling.confidence, P)


def pooled_variance(groups: Sequence[FloatArray]) -> FloatArray:
    """The unbiased variance down the columns, shape (K,), within groups of shape (X, K), pooled.

    NaN where no group has two rows.
    """
    freedom = sum(len(group) - 1 for group in groups)
    if not freedom:
        return np.full(groups[0].shape[1], np.nan)
    squares_K = sum(((group - group.mean(axis=0)) ** 2).sum(axis=0) for group in groups)
    return np.asarray(squares_K / freedom)
