"""What a table of differences shows: the differences, what could have been seen, adjusted p."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

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
from sage_cli.metrics.intervals.multiplicity import holm
from sage_cli.reports.table import Measure


@dataclass(frozen=True, eq=False)
class Contrast:
    """Two sides on a benchmark, or on the average of several, at each k.

    `about` says what the difference is a statement about. `means` are both sides' pass@k,
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
        """What the difference is about, in words for a table."""
        if self.about == "models":
            return "two models" if self.difference.runs == (1, 1) else "these models"
        return "methods" if min(self.difference.runs) > 1 else "method and this base"


def contrast(one: Comparison) -> Contrast:
    """Of one benchmark; p-values are not adjusted yet."""
    means = (one.curves[0].mean_K, one.curves[1].mean_K)
    return _contrast(one.a, one.b, means, one.difference, None)


def contrast_of(
    a: Side,
    b: Side,
    ks: Sequence[int],
    pool: Pool | None = None,
    *,
    confidence: float = 0.95,
    resamples: int = 2000,
) -> Contrast:
    """Of two sides on one benchmark at `ks` alone, without a curve's bands and crossing.

    Where a side has several training seeds, seeds are random as well as problems; a side with one
    model is fixed. The seeds' variance is pooled over the methods of `pool`, by default the two.
    """
    if max(len(a.runs), len(b.runs)) > 1:
        difference = method_difference(
            a.runs, b.runs, ks, pool=pool, confidence=confidence, resamples=resamples
        )
    else:
        difference = paired_difference(
            a.counts, b.counts, ks, confidence=confidence, resamples=resamples
        )
    mean_A, mean_B = (pass_matrix(side.counts, ks).mean(axis=0) for side in (a, b))
    return _contrast(a, b, (mean_A, mean_B), difference, pool)


def _contrast(
    a: Side,
    b: Side,
    means: tuple[FloatArray, FloatArray],
    difference: Difference,
    pool: Pool | None,
) -> Contrast:
    found = precision([(a.runs, b.runs)], difference.ks, pool)
    return Contrast(
        (a.label, b.label), about(a, b), means, difference,
        found.detectable(difference), np.full(len(difference.ks), np.nan),
    )  # fmt: skip


def average(comparisons: Sequence[Comparison]) -> Contrast:
    """The unweighted mean over benchmarks of the same sides, with Student's interval and p."""
    return average_of([(one.a, one.b) for one in comparisons], list(map(contrast, comparisons)))


def average_of(
    sides: Sequence[tuple[Side, Side]], contrasts: Sequence[Contrast], pool: Pool | None = None
) -> Contrast:
    """The same from the sides and their contrasts on each benchmark."""
    first = contrasts[0]
    ks, confidence = first.difference.ks, first.difference.confidence
    found = precision([(a.runs, b.runs) for a, b in sides], ks, pool)
    low_K, high_K = found.interval(confidence)
    problems = sum(one.difference.problems for one in contrasts)
    difference = Difference(
        ks, found.mean_K, low_K, high_K, found.p(), confidence, problems, first.difference.runs
    )
    means = [np.mean([one.means[side] for one in contrasts], axis=0) for side in (0, 1)]
    return Contrast(first.labels, first.about, (means[0], means[1]), difference,
                    found.smallest(confidence), np.full(len(ks), np.nan))  # fmt: skip


def adjusted(contrasts: Mapping[str, Contrast], ks: Sequence[int]) -> dict[str, Contrast]:
    """The same with Holm's p-values; the family is every k of `ks` in every contrast."""
    family = {
        name: np.where(np.isin(one.difference.ks, ks), one.difference.p_K, np.nan)
        for name, one in contrasts.items()
    }
    held = holm(np.stack(list(family.values())))
    return {
        name: replace(one, holm_K=held_K)
        for (name, one), held_K in zip(contrasts.items(), held, strict=True)
    }


def difference_at(one: Contrast, k: int) -> Measure:
    """A less B at `k`, with its interval."""
    gap = one.difference
    place = gap.ks.index(k)
    interval = (float(gap.low_K[place]), float(gap.high_K[place]))
    return Measure(float(gap.mean_K[place]), interval=interval, signed=True)


def safe_at(one: Contrast, k: int) -> Measure:
    """The safe interval at `k`, without a value of its own; undefined where there is none."""
    if (safe := one.difference.safe) is None:
        return Measure(float("nan"))
    place = one.difference.ks.index(k)
    return Measure(float("nan"), interval=(float(safe.low_K[place]), float(safe.high_K[place])))


def cells_at(one: Contrast, k: int) -> tuple[Measure, ...]:
    """A table's cells at `k`: both means, A less B with its intervals, detectable, p, Holm's p."""
    place = one.difference.ks.index(k)
    means = (Measure(float(mean_K[place])) for mean_K in one.means)
    ps = (Measure(float(p_K[place]), digits=4, tiny=True)
          for p_K in (one.difference.p_K, one.holm_K))  # fmt: skip
    found = (difference_at(one, k), safe_at(one, k), Measure(float(one.smallest_K[place])))
    return (*means, *found, *ps)


class ContrastJson(TypedDict):
    """A less B, a value for each k; `p_holm` is undefined outside the table's tests.

    `safe` has a pair [low, high] for each k, and `fragile` says where it holds 0 although p is
    small; `safe` is null where training seeds are random too.

    `about` is "methods" where training seeds are random: each side has several, or one has and the
    other is a base, a fixed model. Else it is "models": another training seed may say otherwise.
    `runs` are the training seeds of either side.
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
    """All numbers of a contrast; undefined ones are null."""
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
