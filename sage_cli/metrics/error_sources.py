"""The error of a difference of mean pass@k, where training seeds are random as well as problems.

A difference has several independent sources of error: the training seeds of each side, and the
problems. Each is estimated with few or many degrees of freedom of its own, and Howe's interval adds
the squares of their half-widths (Howe 1974, J. Am. Stat. Assoc. 69, 789).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from sage_cli.metrics.counts import Counts
from sage_cli.metrics.estimators import FloatArray
from sage_cli.metrics.intervals import pass_matrix, two_sided_p, two_sided_reach

SideRuns = Sequence[Sequence[Counts]]
"""One side: for each training seed its counts, one for each evaluation seed."""

Arms = Sequence[Sequence[FloatArray]]
"""Arms with the same training seeds in the same order: for each benchmark its runs, (I, P, K)."""

BISECTIONS = 50
"""Halvings of log p between its bounds: more than a double can hold."""


@dataclass(frozen=True, eq=False)
class ErrorSources:
    """Independent parts of a mean's variance, shape (S, K), and their degrees of freedom, (S,).

    The interval at level alpha reaches sqrt(sum over sources of t(alpha)^2 variance), each with its
    own t. It covers at least 1 - alpha however the variances are divided. A source that is
    estimated with one degree of freedom dominates at small levels, as it has to: Student's t with
    one common number of degrees of freedom (Satterthwaite 1946) has too many exactly where few runs
    happen to agree.
    """

    variance_SK: FloatArray
    freedom_S: FloatArray

    @property
    def error(self) -> FloatArray:
        """The standard error of the mean."""
        return np.asarray(np.sqrt(self.variance_SK.sum(axis=0)))

    def reach(self, alpha: float) -> FloatArray:
        """The half-width of the interval at the two-sided level `alpha`, shape (K,)."""
        return self._reach(np.full(self.variance_SK.shape[1], alpha))

    def p(self, mean_K: FloatArray) -> FloatArray:
        """The smallest level whose interval around `mean_K` excludes 0; NaN without an error.

        The squared half-width is a weighted mean of the squared t. So p lies between Student's with
        the most and with the fewest degrees of freedom, where it is found by bisection.
        """
        error_K = self.error
        known_K = error_K > 0
        p_K = np.full(error_K.shape, np.nan)
        if not known_K.any():
            return p_K
        known = ErrorSources(self.variance_SK[:, known_K], self.freedom_S)
        gap_K = np.abs(mean_K[known_K])
        t_K = gap_K / error_K[known_K]
        low_K, high_K = (
            # bisection on log p: p spans three hundred orders of magnitude
            np.log(np.maximum(two_sided_p(t_K, np.full_like(t_K, freedom)), 1e-300))
            for freedom in (self.freedom_S.max(), self.freedom_S.min())
        )
        for _ in range(BISECTIONS):
            middle_K = (low_K + high_K) / 2
            # an interval that still holds 0 needs a larger level
            holds_K = known._reach(np.exp(middle_K)) > gap_K
            low_K, high_K = np.where(holds_K, middle_K, low_K), np.where(holds_K, high_K, middle_K)
        # the upper end, at which the interval still excludes 0: p is never too small
        p_K[known_K] = np.exp(high_K)
        return p_K

    def _reach(self, alpha_K: FloatArray) -> FloatArray:
        squares_K = np.zeros_like(alpha_K)
        for variance_K, freedom in zip(self.variance_SK, self.freedom_S.tolist(), strict=True):
            squares_K += variance_K * two_sided_reach(alpha_K, np.asarray(freedom)) ** 2
        return np.sqrt(squares_K)


def by_run(runs: SideRuns, ids: Sequence[str], ks: Sequence[int]) -> FloatArray:
    """pass@k of the problems `ids` in each run, its evaluation seeds averaged, shape (I, P, K)."""
    return np.stack([pass_matrix([seed.ordered(ids) for seed in run], ks) for run in runs])


def residual(sides: Sequence[FloatArray]) -> FloatArray:
    """The variance of a problem's value in one run around the run's and the problem's mean, pooled.

    Each side has the shape (I, P, K). 0 where every side has one run, or one problem.
    """
    squares_K, freedom = np.zeros(sides[0].shape[2]), 0
    for side_IPK in sides:
        runs, P, _ = side_IPK.shape
        # two-way analysis of variance without replication: what is left after run and problem means
        # are taken off
        rest_IPK = side_IPK - side_IPK.mean(axis=1, keepdims=True)
        rest_IPK -= rest_IPK.mean(axis=0)
        squares_K += (rest_IPK**2).sum(axis=(0, 1))
        freedom += (runs - 1) * (P - 1)
    return squares_K / max(freedom, 1)


def error_over(
    benchmarks: Sequence[tuple[FloatArray, FloatArray]],
    *,
    paired: bool = False,
    arms: Arms | None = None,
) -> ErrorSources:
    """Sources of error of A's mean minus B's over benchmarks, each of shape (K,).

    Each benchmark has the shapes (I, P, K) of both sides, the same runs I on all; the mean over
    benchmarks is unweighted. A side with one run, such as a base, is fixed and adds no seeds.

    With y[i, p] = mean + seed[i] + problem[p] + noise[i, p] for the T runs of a side, the variance
    between its runs' means is s_seed + s_noise / P, and the problems' mean gaps vary by
    s_gap + s_noise / T for each side. The noise of sampling is in both, so it is taken off once:

        between runs / T for each side + (between problems - residual / T for each side) / P

    where the second part is never taken to be below 0.

    `paired`: run i of A and run i of B have one training seed, so the runs of the side A - B are
    the gaps. What a seed does to both arms alike cancels.

    `arms` are those of a suite which all have these seeds, A and B among them; then the variance
    between seeds is pooled over them (`_pooled_seeds`).
    """
    if paired:
        # B becomes a fixed side of zeros: one run, which adds no source of error
        benchmarks = [(a_IPK - b_IPK, np.zeros_like(a_IPK[:1])) for a_IPK, b_IPK in benchmarks]
    sides = [side for side in zip(*benchmarks, strict=True) if len(side[0]) > 1]
    sources = (
        [_between_runs(side) for side in sides]
        if arms is None
        else _pooled_seeds(arms, of_gaps=paired)
    )
    for place, (a_IPK, b_IPK) in enumerate(benchmarks):
        gap_PK = a_IPK.mean(axis=0) - b_IPK.mean(axis=0)
        P = len(gap_PK)
        between_K = gap_PK.var(axis=0, ddof=1) if P > 1 else np.full(gap_PK.shape[1], np.nan)
        noise_K = sum(residual([side[place]]) / len(side[place]) for side in sides)
        # below 0 where sampling noise happens to exceed what it should be: a variance of 0 then.
        # The mean over B benchmarks divides each benchmark's variance by B^2.
        problems_K = np.maximum(between_K - noise_K, 0) / P / len(benchmarks) ** 2
        # P - 1 degrees of freedom: the noise that was subtracted has many more, so it hardly
        # changes them
        sources.append((problems_K, max(P - 1, 1)))
    variances, freedoms = zip(*sources, strict=True)
    return ErrorSources(np.stack(variances), np.array(freedoms, float))


def _between_runs(side: Sequence[FloatArray]) -> tuple[FloatArray, int]:
    """Return the variance of a side's mean by its runs, (K,), and its degrees of freedom."""
    means_IK = np.mean([runs_IPK.mean(axis=1) for runs_IPK in side], axis=0)
    return means_IK.var(axis=0, ddof=1) / len(means_IK), len(means_IK) - 1


def _pooled_seeds(arms: Arms, *, of_gaps: bool) -> list[tuple[FloatArray, int]]:
    """Return the seeds' part of the error pooled over M arms with the same T training seeds.

    With y[m, t] = arm[m] + seed[t] + rest[m, t] there are two mean squares: that of the seeds,
    M s_seed + s_rest, with T - 1 degrees of freedom, and that of the rest, s_rest, with
    (M - 1)(T - 1).

    `of_gaps`: two arms on the same seed differ by two rests, so their gap varies by 2 s_rest. It is
    assumed that the gaps of all pairs of arms vary alike; with two arms it is their own variance.

    Otherwise the variance of one arm, s_seed + s_rest, is needed, for its difference from a fixed
    model. The mean over arms of the variance between their own seeds is both mean squares weighted
    by 1 / M and (M - 1) / M. They are two sources: where arms follow the seed alike, six arms with
    three seeds have seen three seeds, not eighteen. It is assumed that all arms vary alike.
    """
    means_MTK = np.stack(
        [np.mean([runs_IPK.mean(axis=1) for runs_IPK in arm], axis=0) for arm in arms]
    )
    M, T, _ = means_MTK.shape
    seed_TK = means_MTK.mean(axis=0) - means_MTK.mean(axis=(0, 1))
    rest_MTK = means_MTK - means_MTK.mean(axis=1, keepdims=True) - seed_TK
    freedom = (M - 1) * (T - 1)
    rest_K = (rest_MTK**2).sum(axis=(0, 1)) / max(freedom, 1)
    if of_gaps:
        # what a seed does to both arms alike cancels in their gap, so that only the rests are left
        return [(2 * rest_K / T, freedom)]
    seeds = ((seed_TK**2).sum(axis=0) / (T - 1) / T, T - 1)
    return [seeds, ((M - 1) / M * rest_K / T, freedom)] if M > 1 else [seeds]
