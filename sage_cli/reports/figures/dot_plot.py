"""Dot plots with intervals: a row per item, a colour per policy, a panel per benchmark."""

from __future__ import annotations

import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from sage_cli.reports.figures.figure import drawing
from sage_cli.reports.figures.legend import Legend, series_of
from sage_cli.reports.tables.table import Measure

Panels = Mapping[str, Mapping[str, Mapping[str, Measure]]]
"""Panel -> row -> policy -> value."""

PANEL_IN = 3.6
ACROSS = 4
"""The most panels side by side; further ones stand below."""
ROW_IN = 0.16
"""Height of one point."""
AIR = 1.5
"""Space between two rows, in points."""


def draw_dot_plot(panels: Panels, axis: str, stem: Path, *, zero: bool = False) -> None:
    """Draw panel -> row -> policy -> value against `axis`; `zero` draws a vertical line at 0.

    Panels share their rows, so that a row is read across; a row that a panel lacks stays empty.
    """
    rows = heights(panels)
    policies = series_of(row for panel in panels.values() for row in panel.values())
    most = max(map(len, rows.values()), default=0)
    across = min(ACROSS, len(panels))
    down = -(-len(panels) // across)
    width_in = PANEL_IN * across + 0.07 * max(map(len, rows), default=0)
    legend = Legend.of(policies, width_in)
    height_in = down * (ROW_IN * (most + AIR) * len(rows) + 0.8)
    with drawing(stem, width_in, height_in + legend.height_in) as figure:
        axes_P = figure.subplots(down, across, squeeze=False, sharey=True).ravel()
        for axes in axes_P[len(panels) :]:
            axes.set_visible(False)
        for axes, (title, panel) in zip(axes_P, panels.items(), strict=False):
            for row, places in rows.items():
                _draw_row(axes, places, panel.get(row, {}), legend)
            axes.set_title(title)
            axes.set_xlabel(axis)
            axes.locator_params(axis="x", nbins=6)
            axes.set_yticks(range(len(rows)), list(rows))
            axes.tick_params(axis="y", length=0)
            axes.grid(visible=False, axis="y")
            if zero:
                axes.axvline(0, color="0.3", linewidth=0.9, zorder=1)
        axes_P[0].set_ylim(len(rows) - 0.5, -0.5)
        legend.draw_points(figure)


def heights(panels: Panels) -> dict[str, dict[str, float]]:
    """Return row -> policy -> height: a row's points lie below each other around 0, 1, ..."""
    rows: dict[str, dict[str, None]] = {}
    for panel in panels.values():
        for row, values in panel.items():
            rows.setdefault(row, {}).update(dict.fromkeys(values))
    step = 1 / (max(map(len, rows.values()), default=0) + AIR)
    return {
        row: {
            policy: place + (order - (len(policies) - 1) / 2) * step
            for order, policy in enumerate(policies)
        }
        for place, (row, policies) in enumerate(rows.items())
    }


def _draw_row(
    axes: Any, places: Mapping[str, float], values: Mapping[str, Measure], legend: Legend
) -> None:
    """Draw the policies' points of one row."""
    for policy, height in places.items():
        value = values.get(policy)
        if value is None or math.isnan(value.value):
            continue
        look = legend.point(policy)
        axes.plot([value.value], [height], markersize=4, clip_on=False, **look)
        if value.interval is not None:
            axes.hlines(height, *value.interval, color=look["color"], linewidth=1.4)
