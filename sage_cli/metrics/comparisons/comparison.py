"""The comparison of two models, or of two methods over their training seeds."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from sage_cli.metrics.comparisons.crossing import Crossing, find_crossing
from sage_cli.metrics.comparisons.differences import (
    Difference,
    method_difference,
    paired_difference,
)
from sage_cli.metrics.comparisons.support import Support, compare_support
from sage_cli.metrics.counts import Counts, pooled
from sage_cli.metrics.intervals.bands import Curve, curve
from sage_cli.metrics.intervals.interval import USUAL, Resampling
from sage_cli.metrics.intervals.variance_components import VarianceComponents, variance_components
from sage_cli.settings.ks import curve_ks

About = Literal["models", "methods"]
"""The subject of a difference: the models at hand, or the methods that train such."""


@dataclass(frozen=True)
class Side:
    """One model, or a method's models with different training seeds.

    `runs` holds for each model its counts, one for each evaluation seed. A single model that is a
    `base` is meant itself; any other single model is one training of a method.
    """

    label: str
    runs: tuple[Sequence[Counts], ...]
    base: bool = False

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
    """Side a less side b, at the ks of a curve; `shown` are those that a table is to show.

    Crossing and support are those of two models, None where a side has several.
    """

    a: Side
    b: Side
    curves: tuple[Curve, Curve]
    difference: Difference
    variances: tuple[VarianceComponents, VarianceComponents]
    crossing: Crossing | None
    support: Support | None
    shown: tuple[int, ...]


def compare_sides(a: Side, b: Side, ks: Sequence[int], how: Resampling = USUAL) -> Comparison:
    """Compare two models (one each), or methods (several models a side), on the same problems.

    Everything is computed at all ks of a curve; `ks` are those to show.
    """
    shown = tuple(map(int, ks))
    fewest = [int(counts.n_P.min()) for counts in (*a.counts, *b.counts) if len(counts)]
    ks = curve_ks(min(fewest, default=0), shown)
    crossing, support = None, None
    if len(a.runs) == len(b.runs) == 1:
        difference = paired_difference(a.counts, b.counts, ks, how)
        crossing = find_crossing(a.counts, b.counts, ks, how)
        support = compare_support(pooled(b.counts), pooled(a.counts), confidence=how.confidence)
    else:
        difference = method_difference(a.runs, b.runs, ks, how)
    curves = curve(a.counts, ks, how), curve(b.counts, ks, how)
    variances = variance_components(a.runs, ks), variance_components(b.runs, ks)
    return Comparison(a, b, curves, difference, variances, crossing, support, shown)
