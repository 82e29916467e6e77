"""Verdicts: what a comparison found, in a sentence for each k."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from sage_cli.metrics.power import POWER
from sage_cli.reports.comparison.contrast import Contrast, overall_contrast
from sage_cli.reports.comparison.numbers import difference_at, shown_p
from sage_cli.reports.labels import AVERAGE

VERDICTS = 3
"""Values of k that have a verdict each; of more, only the first and the last have one."""


def verdicts_of(
    contrast: Contrast, ks: Sequence[int], heading: str = "", *, tests: int = 1
) -> list[str]:
    """Return what was found in a sentence for each k of `ks`, the first of them below `heading`.

    A difference is found where p, after Holm where there are several `tests`, is at most 1 minus
    the confidence. One that isn't found comes with the one that would have been.
    """
    return [
        f"{heading if place == 0 else ''}{_verdict(contrast, k, adjusted=tests > 1)}"
        for place, k in enumerate(ks)
    ]


def _verdict(contrast: Contrast, k: int, *, adjusted: bool) -> str:
    column, (a, b) = contrast.difference.ks.index(k), contrast.labels
    p = float((contrast.holm_K if adjusted else contrast.difference.p_K)[column])
    gap = f"{a} − {b} = {difference_at(contrast, k)}"
    if math.isnan(p):
        return f"At k = {k} nothing can be tested: {gap}."
    shown = str(shown_p(p, contrast.difference))
    relation = f"< {shown[1:]}" if shown.startswith("<") else f"= {shown}"
    tested = f"p{' (Holm)' if adjusted else ''} {relation}"
    if p <= 1 - contrast.difference.confidence:
        higher, lower = (a, b) if contrast.difference.mean_K[column] > 0 else (b, a)
        return f"At k = {k} {higher} is above {lower}: {gap}, {tested}."
    smallest = float(contrast.smallest_K[column])
    missed = (
        "which difference would have been found is unknown"
        if math.isnan(smallest)
        else f"a difference of {smallest:.3f} would have been found in {POWER:.0%} of repetitions"
        + " by a single test" * adjusted
    )
    return f"At k = {k} no difference is found: {gap}, {tested}; {missed}."


def told_ks(ks: Sequence[int]) -> Sequence[int]:
    """Return the values of k whose verdicts stand above the tables."""
    return ks if len(ks) <= VERDICTS else (ks[0], ks[-1])


def overall_verdicts(rows: Mapping[str, Contrast], ks: Sequence[int], tests: int) -> list[str]:
    """Return the verdicts of the benchmarks' average, or of the only benchmark."""
    contrast = overall_contrast(rows)
    heading = f"On average over {len(rows) - 1} benchmarks: " if AVERAGE in rows else ""
    return [] if contrast is None else verdicts_of(contrast, told_ks(ks), heading, tests=tests)
