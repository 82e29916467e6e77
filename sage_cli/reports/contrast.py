"""Contrasts of two sides: differences, detectable differences, and adjusted p-values."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TypeVar

import numpy as np
from typing_extensions import TypedDict

from sage_cli.metrics import (
    About,
    Comparison,
    Difference,
    Side,
    about,
    method_difference,
    paired_difference,
)
from sage_cli.metrics.comparisons.seed_noise import Pool
from sage_cli.metrics.counts import FloatArray
from sage_cli.metrics.design.precision import precision
from sage_cli.metrics.intervals.bands import pass_matrix
from sage_cli.metrics.intervals.distributions import holm
from sage_cli.metrics.intervals.interval import USUAL, Resampling
from sage_cli.reports.tables.table import Measure

Key = TypeVar("Key")


@dataclass(frozen=True, eq=False)
class Contrast:
    """Two sides on a benchmark, or on the average of several, at each k.

    `about` is what the difference is a statement about. `means` are both sides' pass@k,
    `smallest_K` the smallest detectable differences, `holm_K` the p-values of `difference` after
    Holm; NaN outside the family.
    """

    labels: tuple[str, str]
    about: About
    means: tuple[FloatArray, FloatArray]
    difference: Difference
    smallest_K: FloatArray
    holm_K: FloatArray

    @property
    def subject(self) -> str:
        """Return what the difference is about, in words for a table."""
        if self.about == "models":
            return "two models" if self.difference.runs == (1, 1) else "these models"
        return "methods" if min(self.difference.runs) > 1 else "method and this base"


def contrast(one: Comparison) -> Contrast:
    """Return the contrast of one benchmark; its p-values are not adjusted yet."""
    means = (one.curves[0].mean_K, one.curves[1].mean_K)
    return _contrast(one.a, one.b, means, one.difference, None)


def contrast_of(
    a: Side,
    b: Side,
    ks: Sequence[int],
    pool: Pool | None = None,
    how: Resampling = USUAL,
) -> Contrast:
    """Return the contrast of two sides on a benchmark at `ks`, without bands and crossing.

    If a side has several training seeds, seeds are random as well as problems; a side with one
    model is fixed. The seeds' variance is pooled over the methods of `pool`, by default the two.
    """
    if max(len(a.runs), len(b.runs)) > 1:
        difference = method_difference(a.runs, b.runs, ks, how, pool=pool)
    else:
        difference = paired_difference(a.counts, b.counts, ks, how)
    mean_A, mean_B = (pass_matrix(side.counts, ks).mean(axis=0) for side in (a, b))
    return _contrast(a, b, (mean_A, mean_B), difference, pool)


def _contrast(
    a: Side,
    b: Side,
    means: tuple[FloatArray, FloatArray],
    difference: Difference,
    pool: Pool | None,
) -> Contrast:
    smallest_K = precision([(a.runs, b.runs)], difference.ks, pool).detectable(difference)
    unknown_K = np.full(len(difference.ks), np.nan)
    return Contrast((a.label, b.label), about(a, b), means, difference, smallest_K, unknown_K)


def average(comparisons: Sequence[Comparison]) -> Contrast:
    """Return the unweighted mean over benchmarks of the same sides, by Student's t."""
    return average_of([(one.a, one.b) for one in comparisons], list(map(contrast, comparisons)))


def average_of(
    sides: Sequence[tuple[Side, Side]], contrasts: Sequence[Contrast], pool: Pool | None = None
) -> Contrast:
    """Return the same from the sides and their contrasts on each benchmark."""
    first = contrasts[0]
    ks, confidence, runs = first.difference.ks, first.difference.confidence, first.difference.runs
    mean = precision([(a.runs, b.runs) for a, b in sides], ks, pool)
    low_K, high_K = mean.interval(confidence)
    problems = sum(one.difference.problems for one in contrasts)
    difference = Difference(ks, mean.mean_K, low_K, high_K, mean.p(), confidence, problems, runs)
    mean_A, mean_B = (np.mean([one.means[side] for one in contrasts], axis=0) for side in (0, 1))
    smallest_K, unknown_K = mean.smallest(confidence), np.full(len(ks), np.nan)
    return Contrast(first.labels, first.about, (mean_A, mean_B), difference, smallest_K, unknown_K)


def adjusted(contrasts: Mapping[Key, Contrast], ks: Sequence[int]) -> dict[Key, Contrast]:
    """Return the contrasts with Holm's p-values over every k of `ks` in all of them."""
    family = {
        name: np.where(np.isin(one.difference.ks, ks), one.difference.p_K, np.nan)
        for name, one in contrasts.items()
    }
    adjusted_p = holm(np.stack(list(family.values())))
    return {
        name: replace(one, holm_K=holm_K)
        for (name, one), holm_K in zip(contrasts.items(), adjusted_p, strict=True)
    }


def difference_at(one: Contrast, k: int) -> Measure:
    """Return A less B at `k` with its interval."""
    gap = one.difference
    place = gap.ks.index(k)
    interval = (float(gap.low_K[place]), float(gap.high_K[place]))
    return Measure(float(gap.mean_K[place]), interval=interval, signed=True)


def safe_at(one: Contrast, k: int) -> Measure:
    """Return the safe interval at `k` without a value; undefined if there is none."""
    if (safe := one.difference.safe) is None:
        return Measure(float("nan"))
    place = one.difference.ks.index(k)
    return Measure(float("nan"), interval=(float(safe.low_K[place]), float(safe.high_K[place])))


def cells_at(one: Contrast, k: int) -> tuple[Measure, ...]:
    """Return a row's cells: both means, A less B, safe interval, detectable, p, Holm's p."""
    place = one.difference.ks.index(k)
    means = (Measure(float(mean_K[place])) for mean_K in one.means)
    p_values = (float(p_K[place]) for p_K in (one.difference.p_K, one.holm_K))
    smallest = Measure(float(one.smallest_K[place]))
    ps = (Measure(p, digits=4, tiny=True) for p in p_values)
    return (*means, difference_at(one, k), safe_at(one, k), smallest, *ps)


class ContrastJson(TypedDict):
    """A less B, a value for each k; `p_holm` is undefined outside the table's tests.

    `safe` has a pair [low, high] for each k, and `fragile` is true where it contains 0 although p
    is small; `safe` is null if training seeds are random too.

    `about` is "methods" if training seeds are random: each side has several, or one has and the
    other is a base, a fixed model. Else it is "models": another training seed may differ. `runs`
    are the numbers of training seeds of both sides.
    """

    about: About
    runs: list[int]
    k: list[int]
    difference: FloatArray
    low: FloatArray
    high: FloatArray
    safe: list[FloatArray] | None
    fragile: list[bool]
    p: FloatArray
    p_holm: FloatArray
    smallest_detectable: FloatArray
    problems: int


def contrast_json(one: Contrast) -> ContrastJson:
    """Return all numbers of a contrast; undefined ones are null."""
    difference, safe = one.difference, one.difference.safe
    return {
        "about": one.about,
        "runs": list(difference.runs),
        "k": list(difference.ks),
        "difference": difference.mean_K,
        "low": difference.low_K,
        "high": difference.high_K,
        "safe": None if safe is None else list(np.stack([safe.low_K, safe.high_K], axis=1)),
        "fragile": difference.fragile.tolist(),
        "p": difference.p_K,
        "p_holm": one.holm_K,
        "smallest_detectable": one.smallest_K,
        "problems": difference.problems,
    }
