"""What a table of differences shows: the differences, what could have been seen, adjusted p."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from sage_cli.metrics import Comparison, Difference
from sage_cli.metrics.counts import FloatArray
from sage_cli.metrics.multiplicity import holm
from sage_cli.metrics.precision import precision


@dataclass(frozen=True, eq=False)
class Contrast:
    """Two sides on a benchmark, or on the average of several, at each k.

    `means` are both sides' pass@k, `smallest_K` the smallest detectable differences, `holm_K` the
    p-values of `difference` after Holm; NaN outside the family.
    """

    labels: tuple[str, str]
    means: tuple[FloatArray, FloatArray]
    difference: Difference
    smallest_K: FloatArray
    holm_K: FloatArray


def contrast(one: Comparison) -> Contrast:
    """Of one benchmark; p-values are not adjusted yet."""
    ks, confidence = one.difference.ks, one.difference.confidence
    smallest_K = precision([(one.a.runs, one.b.runs)], ks).smallest(confidence)
    means = (one.curves[0].mean_K, one.curves[1].mean_K)
    return Contrast((one.a.label, one.b.label), means, one.difference, smallest_K,
                    np.full(len(ks), np.nan))  # fmt: skip


def average(comparisons: Sequence[Comparison]) -> Contrast:
    """The unweighted mean over benchmarks of the same sides, with Student's interval and p."""
    first = comparisons[0]
    ks, confidence = first.difference.ks, first.difference.confidence
    found = precision([(one.a.runs, one.b.runs) for one in comparisons], ks)
    low_K, high_K = found.interval(confidence)
    problems = sum(one.difference.problems for one in comparisons)
    difference = Difference(
        ks, found.mean_K, low_K, high_K, found.p(), confidence, problems, first.difference.runs
    )
    means = [np.mean([one.curves[side].mean_K for one in comparisons], axis=0) for side in (0, 1)]
    return Contrast((first.a.label, first.b.label), (means[0], means[1]), difference,
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


def contrast_json(one: Contrast) -> dict[str, Any]:
    """All numbers of a contrast; undefined ones are null."""
    difference = one.difference
    return {
        "k": list(difference.ks),
        "difference": difference.mean_K,
        "low": difference.low_K,
        "high": difference.high_K,
        "p": difference.p_K,
        "p_holm": one.holm_K,
        "smallest_detectable": one.smallest_K,
        "problems": difference.problems,
    }
