"""Contrasts of two sides: differences, minimum detectable differences, adjusted p-values."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TypeVar

import numpy as np

from sage_cli.metrics import About, Comparison, Difference, Side, about
from sage_cli.metrics.comparison import arms_with_seeds, difference_of_sides
from sage_cli.metrics.error_sources import by_run
from sage_cli.metrics.estimators import FloatArray
from sage_cli.metrics.intervals import USUAL, Resampling, holm, pass_matrix
from sage_cli.metrics.power import Precision, precision
from sage_cli.reports.labels import AVERAGE

_Key = TypeVar("_Key")


@dataclass(frozen=True, eq=False)
class Contrast:
    """Two sides on a benchmark, or on the average of several, at each k.

    `sides` have the runs that were compared, `about` is what the difference is a statement about.
    `means` are both sides' pass@k, `smallest_K` the smallest detectable differences, `holm_K` the
    p-values of `difference` after Holm; NaN outside the family. `unpooled` is the same difference
    with the seeds of both sides alone, where `difference` pools them over a suite's arms.
    """

    sides: tuple[Side, Side]
    about: About
    means: tuple[FloatArray, FloatArray]
    difference: Difference
    smallest_K: FloatArray
    holm_K: FloatArray
    unpooled: Difference | None = None

    @property
    def labels(self) -> tuple[str, str]:
        """The labels of both sides."""
        return self.sides[0].label, self.sides[1].label

    @property
    def subject(self) -> str:
        """Return what the difference is about, in words for a table."""
        if self.about == "models":
            return "two models" if self.difference.runs == (1, 1) else "these models"
        return "methods" if min(self.difference.runs) > 1 else "method and this base"


def contrast_of_curves(comparison: Comparison) -> Contrast:
    """Return the contrast of one benchmark; its p-values are not adjusted yet."""
    means = (comparison.curves[0].mean_K, comparison.curves[1].mean_K)
    return _contrast((comparison.a, comparison.b), means, comparison.difference, None)


def contrast_of(
    a: Side, b: Side, ks: Sequence[int], arms: Sequence[Side] = (), resampling: Resampling = USUAL
) -> Contrast:
    """Return the contrast of two sides on a benchmark at `ks`, without bands and crossing.

    If a side has several training seeds, seeds are random as well as problems; a side with one
    model is fixed. `arms` are all of a suite, over which the seeds' variance is pooled.
    """
    first, second, difference = difference_of_sides(a, b, ks, resampling)
    sides, paired = (first, second), difference.pairing is not None
    mean_A, mean_B = (pass_matrix(side.counts, ks).mean(axis=0) for side in sides)
    pool = arms_with_seeds(arms, *sides, paired=paired)
    if pool is None:
        return _contrast(sides, (mean_A, mean_B), difference, None)
    # of all runs once more, so that it, too, says which have no partner
    _, _, pooled_difference = difference_of_sides(a, b, ks, resampling, arms=arms)
    contrast = _contrast(sides, (mean_A, mean_B), pooled_difference, [pool])
    return replace(contrast, unpooled=difference)


def _contrast(
    sides: tuple[Side, Side],
    means: tuple[FloatArray, FloatArray],
    difference: Difference,
    pools: Sequence[Sequence[Side]] | None,
) -> Contrast:
    smallest_K = _precision([sides], difference, pools).detectable(difference)
    unknown_K = np.full(len(difference.ks), np.nan)
    return Contrast(sides, about(*sides), means, difference, smallest_K, unknown_K)


def _precision(
    sides: Sequence[tuple[Side, Side]],
    like: Difference,
    pools: Sequence[Sequence[Side]] | None,
) -> Precision:
    """Return the precision of a difference over benchmarks; `pools` has the arms on each."""
    arms = None
    if pools is not None:
        by_benchmark = [
            [by_run(arm.runs, a.runs[0][0].problem_ids, like.ks) for arm in pool]
            for pool, (a, _) in zip(pools, sides, strict=True)
        ]
        arms = list(zip(*by_benchmark, strict=True))
    runs = [(a.runs, b.runs) for a, b in sides]
    return precision(
        runs, like.ks, paired=like.pairing is not None, arms=arms, resampling=like.resampling
    )


def average_of(
    contrasts: Sequence[Contrast], arms: Sequence[Sequence[Side]] | None = None
) -> Contrast:
    """Return the unweighted mean over benchmarks of the same sides, as each was compared.

    `arms` are those of a suite on each benchmark; those that lack one aren't pooled.
    """
    like, pools = contrasts[0].difference, None
    if arms is not None:
        everywhere = set.intersection(*({arm.label for arm in on} for on in arms))
        chosen = [
            arms_with_seeds(
                [arm for arm in on if arm.label in everywhere],
                *contrast.sides,
                paired=like.pairing is not None,
            )
            for on, contrast in zip(arms, contrasts, strict=True)
        ]
        if all(pool is not None for pool in chosen):
            pools = [pool for pool in chosen if pool is not None]
    unpooled, smallest_K = _average(contrasts, None)
    if pools is None:
        difference, unpooled_difference = unpooled, None
    else:
        (difference, smallest_K), unpooled_difference = _average(contrasts, pools), unpooled
    mean_A, mean_B = np.mean([contrast.means for contrast in contrasts], axis=0)
    return replace(
        contrasts[0],
        means=(mean_A, mean_B),
        difference=difference,
        smallest_K=smallest_K,
        holm_K=np.full(len(like.ks), np.nan),
        unpooled=unpooled_difference,
    )


def _average(
    contrasts: Sequence[Contrast], pools: Sequence[Sequence[Side]] | None
) -> tuple[Difference, FloatArray]:
    """Return the mean difference over benchmarks, and the smallest detectable ones, (K,)."""
    like = contrasts[0].difference
    mean = _precision([contrast.sides for contrast in contrasts], like, pools)
    low_K, high_K = mean.interval(like.confidence)
    problems = sum(contrast.difference.problems for contrast in contrasts)
    difference = Difference(
        like.ks, mean.mean_K, low_K, high_K, mean.p(), like.confidence, problems, like.runs
    )
    return difference, mean.smallest(like.confidence)


def adjusted(contrasts: Mapping[_Key, Contrast], ks: Sequence[int]) -> dict[_Key, Contrast]:
    """Return the contrasts with Holm's p-values over every k of `ks` in all of them."""
    # ks that no table shows are outside the family: more tests would only cost power
    family = {
        name: np.where(np.isin(contrast.difference.ks, ks), contrast.difference.p_K, np.nan)
        for name, contrast in contrasts.items()
    }
    adjusted_p = holm(np.stack(list(family.values())))
    return {
        name: replace(contrast, holm_K=holm_K)
        for (name, contrast), holm_K in zip(contrasts.items(), adjusted_p, strict=True)
    }


def overall_contrast(by_benchmark: Mapping[str, Contrast]) -> Contrast | None:
    """Return a pair's contrast on the benchmarks' average, or on the only benchmark."""
    return by_benchmark.get(AVERAGE) or next(iter(by_benchmark.values()), None)
