"""Differences of methods as points with their intervals: what they are less, at each k."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from sage_cli.analysis.pictures import dots
from sage_cli.reports.contrast import Contrast, difference_at
from sage_cli.reports.document import Figure
from sage_cli.reports.table import Measure
from sage_cli.suite.results import Pair

Panels = dict[str, dict[str, dict[str, Measure]]]
"""pass@k -> method -> "less another" -> difference."""


def forest(found: Mapping[Pair, Contrast], ks: Sequence[int]) -> Figure:
    """The picture of differences on one benchmark, or of their average, at `ks`."""
    return dots("differences", forest_panels(found, ks), "difference", zero=True)


def forest_panels(found: Mapping[Pair, Contrast], ks: Sequence[int]) -> Panels:
    """A panel for each k, a row for each method, a point for each that it is compared with."""
    panels: Panels = {f"pass@{k}": {} for k in ks}
    for (a, b), one in found.items():
        for k in ks:
            panels[f"pass@{k}"].setdefault(a, {})[f"less {b}"] = difference_at(one, k)
    return panels
