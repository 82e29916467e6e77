"""pass@k of one model on one benchmark, with a band for the population of problems."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from sage_cli.errors import MetricError
from sage_cli.metrics.counts import Evaluations, FloatArray, each_seed
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
