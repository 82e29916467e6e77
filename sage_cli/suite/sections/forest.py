"""Differences of methods as points with their intervals: what they are less, at each k."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from sage_cli.reports.contrast import Contrast
from sage_cli.reports.document import Figure
from sage_cli.reports.table import Measure
from sage_cli.suite.results import Pair

Panels = dict[str, dict[str, dict[str, Measure]]]
"""pass@k -> method -> "less another" -> difference."""


def forest(found: Mapping[Pair, Contrast], ks: Sequence[int]) -> Figure:
    """The picture of differences on one benchmark, or of their average, at `ks`."""
    panels = forest_panels(found, ks)

    def draw(path: Path) -> None:
        from sage_cli.reports.dots import draw_dots

        draw_dots(panels, "difference", path, zero=True)

    return Figure("differences", draw)


def forest_panels(found: Mapping[Pair, Contrast], ks: Sequence[int]) -> Panels:
    """A panel for each k, a row for each method, a point for each that it is compared with."""
    panels: Panels = {f"pass@{k}": {} for k in ks}
    for (a, b), one in found.items():
        gap = one.difference
        for k in ks:
            place = gap.ks.index(k)
            interval = (float(gap.low_K[place]), float(gap.high_K[place]))
            value = Measure(float(gap.mean_K[place]), interval=interval)
            panels[f"pass@{k}"].setdefault(a, {})[f"less {b}"] = value
    return panels
