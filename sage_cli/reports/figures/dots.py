"""Figures of points in rows, with one panel for each benchmark."""

from __future__ import annotations

import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from sage_cli.reports.estimate import Estimate
from sage_cli.reports.figures.legend import Legend, series_of
from sage_cli.reports.figures.panels import panel_grid

DotPanels = Mapping[str, Mapping[str, Mapping[str, Estimate]]]
"""Panel -> row -> policy -> value."""
DOT_PANEL_IN = 2.4
ACROSS = 4
"""The most panels side by side; further ones stand below."""
DOT_ROW_IN = 0.16
"""Height of one point."""
AIR = 1.5
"""Space between two rows, in points."""


def draw_dot_plot(panels: DotPanels, axis: str, stem: Path, *, zero: bool = False) -> None:
    """Draw panel -> row -> policy -> value against `axis`; `zero` draws a vertical line at 0.

    Panels share their rows, so that a row is read across; a row that a panel lacks stays empty.
    """
    rows = heights(panels)
    policies = {title: dict.fromkeys(series_of(panel.values())) for title, panel in panels.items()}
    most, longest = (max(map(len, names), default=0) for names in (rows.values(), rows))
    across = min(ACROSS, len(panels))
    panel_in = (DOT_PANEL_IN + 0.07 * longest / across, DOT_ROW_IN * (most + AIR) * len(rows) + 0.8)
    form: dict[str, Any] = {"columns": ACROSS, "points": True, "sharey": True}
    with panel_grid(stem, policies, panel_in, 0, **form) as (legend, grid):
        for axes, panel in zip(grid, panels.values(), strict=True):
            for row, places in rows.items():
                _draw_row(axes, places, panel.get(row, {}), legend)
            axes.set_xlabel(axis)
            axes.locator_params(axis="x", nbins=4)
            axes.set_yticks(range(len(rows)), list(rows))
            axes.tick_params(axis="y", length=0)
            axes.grid(visible=False, axis="y")
            if zero:
                axes.axvline(0, color="0.3", linewidth=0.9, zorder=1)
        grid[0].set_ylim(len(rows) - 0.5, -0.5)


def heights(panels: DotPanels) -> dict[str, dict[str, float]]:
    """Return row -> policy -> height: a row's points lie below each other around 0, 1, ..."""
    rows: dict[str, dict[str, None]] = {}
    for panel in panels.values():
        for row, values in panel.items():
            rows.setdefault(row, {}).update(dict.fromkeys(values))
    step = 1 / (max(map(len, rows.values()), default=0) + AIR)
    return {
        row: {
            policy: index + (order - (len(policies) - 1) / 2) * step
            for order, policy in enumerate(policies)
        }
        for index, (row, policies) in enumerate(rows.items())
    }


def _draw_row(
    axes: Any, places: Mapping[str, float], values: Mapping[str, Estimate], legend: Legend
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
