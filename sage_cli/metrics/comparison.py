"""Two sides, of one model or of several training seeds each, compared on the same problems."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Literal

import numpy as np

from sage_cli.metrics.counts import STATISTICS, Counts, Statistic, pooled
from sage_cli.metrics.crossing import Crossing, find_crossing
from sage_cli.metrics.differences import (
    ROUNDING,
    Difference,
    Pairing,
    method_difference,
    paired_difference,
)
from sage_cli.metrics.error_sources import by_run
from sage_cli.metrics.estimators import FloatArray
from sage_cli.metrics.intervals import USUAL, Curve, Resampling, curve
from sage_cli.metrics.support import Support, compare_support

About = Literal["models", "methods"]
"""The subject of a difference: the models at hand, or the methods that train such."""


@dataclass(frozen=True)
class TrainingSeed:
    """What a training run began with; equal ones drew the same rows in the same order.

    `origin` identifies the weights of the initial policy and the rows.
    """

    number: int
    origin: str
    run: str = field(compare=False)


@dataclass(frozen=True)
class Side:
    """One model, or a method's models with different training seeds.

    `runs` holds for each model its counts, one for each evaluation seed. A single model that is a
    `base` is meant itself; any other single model is one training of a method. `seeds` has for each
    run what it began with, as far as that is known.
    """

    label: str
    runs: tuple[Sequence[Counts], ...]
    base: bool = False
    seeds: tuple[TrainingSeed | None, ...] = ()

    @property
    def counts(self) -> list[Counts]:
        """The counts of all models and evaluation seeds."""
        return [seed for run in self.runs for seed in run]


def about(a: Side, b: Side) -> About:
    """Return "methods" if each side has several training seeds, or one has and the other is a base.

    A single training says nothing about its method: another seed gives another model.
    """
    several = [len(side.runs) > 1 for side in (a, b)]
    known = all(many or side.base for many, side in zip(several, (a, b), strict=True))
    return "methods" if any(several) and known else "models"


@dataclass(frozen=True)
class Comparison:
    """Side a minus side b, at the ks of a curve; `shown` are those that a table is to show.

    Crossing and support are those of two models, None where a side has several.
    """

    a: Side
    b: Side
    curves: tuple[Curve, Curve]
    difference: Difference
    crossing: Crossing | None
    support: Support | None
    shown: tuple[int, ...]

    @property
    def statistic(self) -> Statistic:
        """What the sides are compared by: that of their counts."""
        return self.a.counts[0].statistic


def pair_sides(a: Side, b: Side) -> tuple[Side, Side, tuple[str, ...]] | None:
    """Return the sides with the runs of their common seeds, in one order, and who is left out.

    None where fewer than two seeds are common, or a side has one of them twice: which of both runs
    would be the partner is not a question that results may answer.
    """
    known = [[seed for seed in side.seeds if seed is not None] for side in (a, b)]
    if any(count > 1 for seeds in known for count in Counter(seeds).values()):
        return None
    common = [seed for seed in known[0] if seed in known[1]]
    if len(common) < 2:
        return None
    left_out = tuple(seed.run for seeds in known for seed in seeds if seed not in common)
    return _with_seeds(a, common), _with_seeds(b, common), left_out


def _with_seeds(side: Side, seeds: Sequence[TrainingSeed]) -> Side:
    """Return the runs of these seeds alone, in their order."""
    places = [side.seeds.index(seed) for seed in seeds]
    runs = tuple(side.runs[place] for place in places)
    return replace(side, runs=runs, seeds=tuple(side.seeds[place] for place in places))


def difference_of_sides(
    a: Side,
    b: Side,
    ks: Sequence[int],
    resampling: Resampling = USUAL,
    *,
    unpaired: bool = False,
    arms: Sequence[Side] | None = None,
) -> tuple[Side, Side, Difference]:
    """Return A minus B with the sides as they were compared: paired by training seed if possible.

    `unpaired` keeps all runs of both sides. `arms` are a suite's sides, over which the variance
    between seeds is pooled where they have the seeds of this comparison.
    """
    if len(a.runs) == len(b.runs) == 1:
        return a, b, paired_difference(a.counts, b.counts, ks, resampling)
    pairs = None if unpaired else pair_sides(a, b)
    left_out: tuple[str, ...] = ()
    if pairs is not None:
        a, b, left_out = pairs
    pool = arms_with_seeds(arms or (), a, b, paired=pairs is not None)
    ids = a.runs[0][0].problem_ids
    pooled_arms = None if pool is None else [[by_run(side.runs, ids, ks)] for side in pool]
    difference = method_difference(
        a.runs, b.runs, ks, resampling, paired=pairs is not None, arms=pooled_arms
    )
    if pairs is not None:
        seeds = tuple(seed.number for seed in a.seeds if seed is not None)
        means = [by_run(side.runs, ids, ks).mean(axis=1) for side in (a, b)]
        pairing = Pairing(seeds, left_out, column_correlations(*means))
        difference = replace(difference, pairing=pairing)
    return a, b, difference


def arms_with_seeds(arms: Sequence[Side], a: Side, b: Side, *, paired: bool) -> list[Side] | None:
    """Return those of `arms` that have the compared seeds, in their order; None if none is pooled.

    Pooled are gaps between paired arms, or an arm's seeds against a fixed model. Two sides with
    seeds of their own have a source of error each.
    """
    several = [side for side in (a, b) if len(side.runs) > 1]
    if not arms or not (paired or len(several) == 1):
        return None
    wanted = [seed for seed in several[0].seeds if seed is not None]
    if len(wanted) < len(several[0].runs):
        return None
    chosen = [_with_seeds(arm, wanted) for arm in arms if {*wanted} <= {*arm.seeds}]
    return chosen if len(chosen) > len(several) else None


def column_correlations(a_IK: FloatArray, b_IK: FloatArray) -> FloatArray:
    """Return Pearson's correlation down the columns, (K,); NaN for two rows or no variance."""
    a_IK, b_IK = a_IK - a_IK.mean(axis=0), b_IK - b_IK.mean(axis=0)
    most_K = np.sqrt((a_IK**2).sum(axis=0) * (b_IK**2).sum(axis=0))
    known_K = (most_K > ROUNDING) & (len(a_IK) > 2)
    return np.asarray(
        np.divide(
            (a_IK * b_IK).sum(axis=0), most_K, out=np.full_like(most_K, np.nan), where=known_K
        )
    )


def compare_sides(
    a: Side,
    b: Side,
    ks: Sequence[int],
    resampling: Resampling = USUAL,
    *,
    unpaired: bool = False,
) -> Comparison:
    """Compare two models (one each), or methods (several models a side), on the same problems.

    Methods are paired by training seed where both have the same ones, unless `unpaired`.
    Everything is computed at all ks of a curve; `ks` are those to show.
    """
    shown = tuple(map(int, ks))
    fewest = [int(counts.n_P.min()) for counts in (*a.counts, *b.counts) if len(counts)]
    statistic = a.counts[0].statistic if a.counts else STATISTICS["pass"]
    ks = statistic.curve_ks(min(fewest, default=0), shown)
    crossing, support = None, None
    a, b, difference = difference_of_sides(a, b, ks, resampling, unpaired=unpaired)
    if difference.runs == (1, 1):
        crossing = find_crossing(a.counts, b.counts, ks, resampling)
        support = compare_support(
            pooled(b.counts), pooled(a.counts), confidence=resampling.confidence
        )
    curves = curve(a.counts, ks, resampling), curve(b.counts, ks, resampling)
    return Comparison(a, b, curves, difference, crossing, support, shown)
