"""pass@k of one model on one benchmark: its band, and the sources of its uncertainty."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from sage_cli.errors import MetricError
from sage_cli.metrics.counts import Counts, Evaluations, FloatArray, each_seed
from sage_cli.metrics.counts.estimator import pass_at_k
from sage_cli.metrics.intervals.interval import USUAL, Resampling
from sage_cli.metrics.intervals.resampling import gaffke


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
        place = self.ks.index(k)
        return float(self.mean_K[place]), float(self.low_K[place]), float(self.high_K[place])


def pass_matrix(counts: Evaluations, ks: Sequence[int]) -> FloatArray:
    """pass@k per problem, shape (P, K), averaged over seeds where several are given.

    Seeds are averaged after estimating, not pooled before, so that each seed is one evaluation.
    """
    seeds = each_seed(counts)
    if not seeds or not len(seeds[0]):
        raise MetricError("no problem was counted, so there is no pass@k")
    ordered = [seed.ordered(seeds[0].problem_ids) for seed in seeds]
    mean_PK: FloatArray = sum(pass_at_k(seed.n_P, seed.c_P, ks) for seed in ordered) / len(seeds)
    return mean_PK


def curve(counts: Evaluations, ks: Sequence[int], how: Resampling = USUAL) -> Curve:
    """Estimate pass@k at every k; the band is Gaffke's bound over problems.

    Samples are never resampled: that puts a right one back twice and leaves another out, which
    biases pass@k downwards when k is near n. The problems' values vary by sampling already.
    """
    pass_PK = pass_matrix(counts, ks)
    band = gaffke(pass_PK, (0, 1), how)
    mean_K, P = pass_PK.mean(axis=0), len(pass_PK)
    return Curve(tuple(map(int, ks)), mean_K, band.low_K, band.high_K, how.confidence, P)


@dataclass(frozen=True, eq=False)
class VarianceComponents:
    """Standard deviations of one evaluation's mean pass@k at each k, if one thing changed.

    `problems_K`: other problems of the same kind (shown by a band; includes the sampling).
    `sampling_K`: other samples for the same problems, from the counts themselves; NaN for
    k > n/2, where no unbiased estimate exists. `evaluation_seeds_K`: the same as seen between
    evaluation seeds; NaN with one. `training_seeds_K`: another training seed, without the
    variance of sampling; NaN with one, or where that variance is unknown.
    """

    ks: tuple[int, ...]
    problems_K: FloatArray
    sampling_K: FloatArray
    evaluation_seeds_K: FloatArray
    training_seeds_K: FloatArray


def variance_components(runs: Sequence[Sequence[Counts]], ks: Sequence[int]) -> VarianceComponents:
    """The components over `runs`, one per training seed, each with a Counts per evaluation seed.

    A variance that is estimated below 0 (the runs differ less than sampling alone would make
    them) is 0, as usual in the analysis of variance.
    """
    ids = runs[0][0].problem_ids
    ordered = [[seed.ordered(ids) for seed in run] for run in runs]
    means = [np.stack([pass_matrix(seed, ks).mean(axis=0) for seed in run]) for run in ordered]
    sampling_K = np.mean([sampling_variance(seed, ks) for run in ordered for seed in run], axis=0)
    seeds_K = pooled_variance(means)
    problems_K = pooled_variance([np.mean([pass_matrix(run, ks) for run in ordered], axis=0)])
    noise_K = np.where(np.isnan(seeds_K), sampling_K, seeds_K)
    share = float(np.mean([1 / len(run) for run in ordered]))
    training_K = pooled_variance([np.stack([mean.mean(axis=0) for mean in means])])
    variances = (problems_K / len(ids), sampling_K, seeds_K, training_K - noise_K * share)
    deviations = (np.sqrt(np.maximum(variance_K, 0)) for variance_K in variances)
    return VarianceComponents(tuple(map(int, ks)), *deviations)


def sampling_variance(counts: Counts, ks: Sequence[int]) -> FloatArray:
    """Unbiased variance of the mean pass@k over other samples for the same problems, shape (K,).

    With F_k = C(n-c, k) / C(n, k), the unbiased estimate of (1-p)^k, F_2k is one of (1-p)^2k; so
    F_k^2 - F_2k has the expectation E[F_k^2] - (E F_k)^2, the variance of F_k and of 1 - F_k.
    NaN where 2k exceeds some problem's n.
    """
    ks_K = np.asarray(ks)
    known_K = 2 * ks_K <= counts.n_P.min()
    variance_K = np.full(len(ks_K), np.nan)
    if known_K.any():
        once_PK = 1 - pass_at_k(counts.n_P, counts.c_P, ks_K[known_K])
        twice_PK = 1 - pass_at_k(counts.n_P, counts.c_P, 2 * ks_K[known_K])
        variance_K[known_K] = (once_PK**2 - twice_PK).mean(axis=0) / len(counts)
    return variance_K


def pooled_variance(groups: Sequence[FloatArray]) -> FloatArray:
    """The unbiased variance down the columns, shape (K,), within groups of shape (X, K), pooled.

    NaN where no group has two rows.
    """
    freedom = sum(len(group) - 1 for group in groups)
    if not freedom:
        return np.full(groups[0].shape[1], np.nan)
    squares_K = sum(((group - group.mean(axis=0)) ** 2).sum(axis=0) for group in groups)
    return np.asarray(squares_K / freedom)
