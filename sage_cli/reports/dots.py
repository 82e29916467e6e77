"""Points with their intervals: a row per thing, a colour per policy, a panel per benchmark."""

from __future__ import annotations

import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from sage_cli.reports.figure import drawing, outputs
from sage_cli.reports.legend import Legend
from sage_cli.reports.table import Measure

Panels = Mapping[str, Mapping[str, Mapping[str, Measure]]]
"""Panel -> row -> policy -> value."""

PANEL_IN = 3.6
ROW_IN = 0.16
"""Height of one point."""
AIR = 1.5
"""Points that would fit between two rows."""


def draw_dots(panels: Panels, axis: str, stem: Path, *, zero: bool = False) -> tuple[Path, Path]:
    """Draw panel -> row -> policy -> value against `axis`; returns the PNG's and the SVG's path.

    Panels share their rows, so that a row is read across; a row that a panel lacks stays empty.
    `zero` draws a line where there is no difference.
    """
    rows = list(dict.fromkeys(row for panel in panels.values() for row in panel))
    policies = list(
        dict.fromkeys(p for panel in panels.values() for r in panel.values() for p in r)
    )
    width_in = PANEL_IN * len(panels) + 0.07 * max(map(len, rows), default=0)
    legend = Legend.of(policies, width_in)
    height_in = ROW_IN * (len(policies) + AIR) * len(rows) + 0.8
    with drawing(stem, width_in, height_in + legend.height_in) as figure:
        axes_P = figure.subplots(1, len(panels), squeeze=False, sharey=True)[0]
        for axes, (title, panel) in zip(axes_P, panels.items(), strict=True):
            for place, row in enumerate(rows):
                _draw_row(axes, place, panel.get(row, {}), legend)
            axes.set_title(title)
            axes.set_xlabel(axis)
            axes.locator_params(axis="x", nbins=6)
            axes.set_yticks(range(len(rows)), rows)
            axes.tick_params(axis="y", length=0)
            axes.grid(visible=False, axis="y")
            if zero:
                axes.axvline(0, color="0.3", linewidth=0.9, zorder=1)
        axes_P[0].set_ylim(len(rows) - 0.5, -0.5)
        legend.draw_points(figure)
    return outputs(stem)


def _draw_row(axes: Any, place: int, values: Mapping[str, Measure], legend: Legend) -> None:
    """The policies' points of one row, below each other around its middle."""
    policies = list(legend.styles)
    step = 1 / (len(policies) + AIR)
    for order, policy in enumerate(policies):
        value = values.get(policy)
        if value is None or math.isnan(value.value):
            continue
        height = place + (order - (len(policies) - 1) / 2) * step
        look = legend.point(policy)
        axes.plot([value.value], [height], markersize=4, clip_on=False, **look)
        if value.interval is not None:
            axes.hlines(height, *value.interval, color=look["color"], linewidth=1.4)
