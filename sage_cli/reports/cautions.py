"""Notes beneath a comparison on what its paired intervals rest on."""

from __future__ import annotations

import math
from collections.abc import Sequence

from sage_cli.metrics import Comparison, Difference, pooled
from sage_cli.metrics.comparisons.pooled_null import different_seeds, grade_correlation


def fragile_notes(difference: Difference, ks: Sequence[int]) -> list[str]:
    """A warning for the ks at which rare, unseen losses could undo what the test found."""
    fragile_K = difference.fragile.tolist()
    found = [str(k) for k, one in zip(difference.ks, fragile_K, strict=True) if one and k in ks]
    if not found:
        return []
    return [
        f"at k = {', '.join(found)} the paired test finds a difference, but the safe interval "
        "holds 0: problems that are lost altogether, so rare that few or none are among these "
        f"{difference.problems}, could undo it; more problems would tell"
    ]


def seeds_notes(comparison: Comparison) -> list[str]:
    """Whether both sides share their random numbers, where that is known, and what it means."""
    a, b = (pooled(side.runs[0]) for side in (comparison.a, comparison.b))
    if different_seeds(a, b):
        return [
            "the two sides have different evaluation seeds, so that they don't share their random "
            "numbers: what sampling adds to a difference is about 1.2 times (a base and its RL "
            "policy) to 2 times (two RL policies of a base) what it is with equal seeds"
        ]
    correlation = grade_correlation(a, b)
    if math.isnan(correlation):
        return []
    return [
        "both sides share their random numbers sample by sample (equal evaluation seeds): within "
        f"a problem verdicts correlate {correlation:.2f}"
    ]
