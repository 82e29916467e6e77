"""The numbers of a contrast, as cells of a table or as JSON."""

from __future__ import annotations

from typing import Any

import numpy as np

from sage_cli.metrics import Comparison, Difference
from sage_cli.reports.comparison.contrast import Contrast
from sage_cli.reports.estimate import Estimate, p_value

NOT_BELOW = 0.05
"""The smallest p that is shown where a side has two training seeds."""


def difference_at(contrast: Contrast, k: int) -> Estimate:
    """Return A − B at `k` with its interval."""
    gap = contrast.difference
    column = gap.ks.index(k)
    interval = (float(gap.low_K[column]), float(gap.high_K[column]))
    return Estimate(float(gap.mean_K[column]), interval=interval, signed=True)


def safe_at(contrast: Contrast, k: int) -> Estimate:
    """Return the safe interval at `k` without a value; undefined if there is none."""
    if (safe := contrast.difference.safe) is None:
        return Estimate(float("nan"))
    column = contrast.difference.ks.index(k)
    return Estimate(float("nan"), interval=(float(safe.low_K[column]), float(safe.high_K[column])))


def cells_at(contrast: Contrast, k: int) -> tuple[Estimate, ...]:
    """Return a row's cells: both means, A − B, safe interval, detectable, p, Holm's p."""
    column = contrast.difference.ks.index(k)
    means = (Estimate(float(mean_K[column])) for mean_K in contrast.means)
    p_values = (float(p_K[column]) for p_K in (contrast.difference.p_K, contrast.holm_K))
    smallest = Estimate(float(contrast.smallest_K[column]))
    ps = (shown_p(p, contrast.difference) for p in p_values)
    return (*means, difference_at(contrast, k), safe_at(contrast, k), smallest, *ps)


def shown_p(p: float, difference: Difference) -> Estimate:
    """Return a p-value of `difference` for a table; "<0.05" where two seeds bear no smaller one."""
    return p_value(p, NOT_BELOW if difference.two_seeds else None)


def contrast_json(contrast: Contrast) -> dict[str, Any]:
    """Return all numbers of a contrast, a value for each k; undefined ones are null.

    `safe` has pairs [low, high], and `fragile` is true where one contains 0 although p is small;
    `safe` is null if training seeds are random too. `about` is "methods" if training seeds are
    random: each side has several, or one has and the other is a base. Else it is "models".
    `pairing` has the training seeds that both sides share, the runs left out for lack of a partner,
    and the correlation of the runs' pass@k; null where runs aren't paired.
    """
    difference, safe = contrast.difference, contrast.difference.safe
    return {
        "about": contrast.about,
        "runs": list(difference.runs),
        "k": list(difference.ks),
        "difference": difference.mean_K,
        "low": difference.low_K,
        "high": difference.high_K,
        "safe": None if safe is None else list(np.stack([safe.low_K, safe.high_K], axis=1)),
        "fragile": difference.fragile.tolist(),
        "p": difference.p_K,
        "p_holm": contrast.holm_K,
        "smallest_detectable": contrast.smallest_K,
        "problems": difference.problems,
        "clusters": difference.clusters,
        "pairing": None
        if difference.pairing is None
        else {
            "seeds": list(difference.pairing.seeds),
            "left_out": list(difference.pairing.left_out),
            "correlation": difference.pairing.correlation_K,
        },
    }


def comparison_json(comparison: Comparison, contrast: Contrast) -> dict[str, Any]:
    """Return all numbers of a comparison and of its contrast.

    An end of the crossing beyond the ks is "inf" or "-inf".
    """
    difference = comparison.difference
    sides = zip((comparison.a, comparison.b), comparison.curves, strict=True)
    return {
        "confidence": difference.confidence,
        "sides": [
            {
                "name": side.label,
                comparison.statistic.name: curve.mean_K,
                "low": curve.low_K,
                "high": curve.high_K,
            }
            for side, curve in sides
        ],
        "crossing": comparison.crossing,
        "support": comparison.support,
        **contrast_json(contrast),
    }
