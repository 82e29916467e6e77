"""Points with their intervals: a row per thing, a colour per policy, a panel per benchmark."""

from __future__ import annotations

import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from matplotlib.lines import Line2D

from sage_cli.reports.figure import COLOURS, drawing, outputs
from sage_cli.reports.table import Measure

Panels = Mapping[str, Mapping[str, Mapping[str, Measure]]]
"""Panel -> row -> policy -> value."""

PANEL_IN = 3.6
ROW_IN = 0.16
"""Height of one point."""
LEGEND_IN = 1.9
"""Least width of an entry of the legend."""


def draw_dots(panels: Panels, axis: str, stem: Path) -> tuple[Path, Path]:
    """Draw panel -> row -> policy -> value against `axis`; returns the PNG's and the SVG's path.

    Panels share their rows, so that a row is read across; a row that a panel lacks stays empty.
    """
    rows = list(dict.fromkeys(row for panel in panels.values() for row in panel))
    policies = list(
        dict.fromkeys(p for panel in panels.values() for r in panel.values() for p in r)
    )
    width_in = PANEL_IN * len(panels) + 0.07 * max(map(len, rows), default=0)
    columns = max(1, min(len(policies), int(width_in / LEGEND_IN)))
    height_in = ROW_IN * (len(policies) + 1.5) * len(rows) + 0.8
    height_in += 0.2 * math.ceil(len(policies) / columns)
    with drawing(stem, width_in, height_in) as figure:
        axes_P = figure.subplots(1, len(panels), squeeze=False, sharey=True)[0]
        for axes, (title, panel) in zip(axes_P, panels.items(), strict=True):
            for place, row in enumerate(rows):
                _draw_row(axes, place, panel.get(row, {}), policies)
            axes.set_title(title)
            axes.set_xlabel(axis)
            axes.set_yticks(range(len(rows)), rows)
            axes.tick_params(axis="y", length=0)
            axes.grid(visible=False, axis="y")
        axes_P[0].set_ylim(len(rows) - 0.5, -0.5)
        handles = [
            Line2D([], [], marker="o", markersize=4, color=COLOURS[i % len(COLOURS)])
            for i in range(len(policies))
        ]
        figure.legend(handles, policies, loc="outside lower center", ncols=columns)
    return outputs(stem)


def _draw_row(axes: Any, place: int, values: Mapping[str, Measure], policies: list[str]) -> None:
    """The policies' points of one row, below each other around its middle."""
    step = 0.8 / max(1, len(policies))
    for order, policy in enumerate(policies):
        value = values.get(policy)
        if value is None or math.isnan(value.value):
            continue
        height = place + (order - (len(policies) - 1) / 2) * step
        colour = COLOURS[order % len(COLOURS)]
        axes.plot([value.value], [height], marker="o", markersize=4, color=colour, clip_on=False)
        if value.interval is not None:
            axes.hlines(height, *value.interval, color=colour, linewidth=1.4)
