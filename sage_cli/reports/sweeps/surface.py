"""An interpolated surface of a sweep over two ranges, with the trials as points."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from sage_cli.metrics.counts import FloatArray
from sage_cli.reports.figures.figure import drawing, say
from sage_cli.reports.sweeps.data import SweepResult
from sage_cli.reports.sweeps.heatmap import LEAST_SPAN
from sage_cli.reports.sweeps.marks import (
    INDISTINGUISHABLE,
    WITHOUT,
    Region,
    colour_bar,
    legend,
    mark,
    region_of_interest,
    states_of,
    value_colours,
)
from sage_cli.reports.sweeps.scale import Scale
from sage_cli.reports.sweeps.winner import short_note

PANEL_IN = (4.3, 3.3)
LEVELS = 12
FLAT = 1e-4
"""Points lie on a line if their extent across it is a smaller share of that along it."""


def draw_surfaces(result: SweepResult, stem: Path) -> None:
    """Draw a panel per objective, first parameter across.

    The surface is linear between measured points and ends at them. Fewer than three points, or
    points on one line, have none.
    """
    across, up = (Scale(axis, result.trials) for axis in result.space)
    width_in = PANEL_IN[0] * len(result.objectives)
    with drawing(stem, width_in, PANEL_IN[1] + 0.5) as figure:
        panels = figure.subplots(1, len(result.objectives), squeeze=False, sharey=True)[0]
        for axes, objective in zip(panels, result.objectives, strict=True):
            axes.set_title(objective)
            axes.set_xlabel(across.axis.label)
            axes.set_xlim(*across.ends)
            axes.set_ylim(*up.ends)
            across.mark(axes.xaxis)
            up.mark(axes.yaxis)
            _draw(figure, axes, result, objective, (across, up))
            say(axes, short_note(result, objective), (0, 0), (0, -34), va="top")
        beside = len(up.axis.label) <= 3
        panels[0].set_ylabel(up.axis.label, **({"rotation": 0, "ha": "right"} if beside else {}))
        words = {"best": "best"} if result.done else {}
        if any(map(result.indistinguishable, result.objectives)):
            words["bright"] = INDISTINGUISHABLE
        legend(figure, words | states_of(result), 3 if len(result.objectives) == 1 else 5)


def colour_region(value_M: FloatArray) -> Region:
    """Return the range of the colours, which has a least width.

    It does not go below 0 unless values do.
    """
    lowest, highest = float(value_M.min()), float(value_M.max())
    least = LEAST_SPAN / 5
    low, _, clipped = region_of_interest(value_M.tolist(), highest, least)
    low = max(low, min(lowest, 0.0))
    return Region(low, max(highest, low + least), clipped)


def _draw(
    figure: Any, axes: Any, result: SweepResult, objective: str, scales: tuple[Scale, Scale]
) -> None:
    value_at, alike = result.value_at(objective), result.indistinguishable(objective)
    points = [
        tuple(scale.place(trial.settings[scale.axis.key]) for scale in scales)
        for trial in result.trials
    ]
    for (x, y), trial in zip(points, result.trials, strict=True):
        if trial.state in WITHOUT:
            mark(axes, x, y, trial.state, zorder=4)
    best = result.best(objective)
    if best is None:
        return
    value_M = np.array([*value_at.values()])
    place_MA = np.array([points[place] for place in value_at])
    part = value_colours()
    region = colour_region(value_M)
    span = {"vmin": region.low, "vmax": region.high}
    style = {"s": 30, "edgecolors": "white", "linewidths": 0.9, "zorder": 3}
    axes.scatter(*place_MA.T, c=value_M, cmap=part, **style, **span)
    if (triangles := _triangles(place_MA)) is not None and np.ptp(value_M) > 0:
        axes.grid(visible=False)
        levels = np.linspace(region.low, region.high, LEVELS + 1)
        style = {"levels": levels, "cmap": part, "alpha": 0.85, "extend": region.extend}
        axes.tricontourf(triangles, value_M, zorder=1, **style)
    if len(value_M) > 1:
        colour_bar(figure, axes, region)
    for (place, value), (x, y) in zip(value_at.items(), place_MA, strict=True):
        if place in alike:
            mark(axes, x, y, "bright", zorder=4)
        if value == value_at[best]:
            mark(axes, x, y, "best", zorder=5)


def _triangles(place_MA: FloatArray) -> Any:
    """Return triangles between points, both axes scaled alike; None for points on a line."""
    from matplotlib.tri import Triangulation

    if len(place_MA) < 3:
        return None
    extent_A = np.ptp(place_MA, axis=0)
    if not (extent_A > 0).all():
        return None
    even_MA = (place_MA - place_MA.min(axis=0)) / extent_A
    along, across = np.linalg.svd(even_MA - even_MA.mean(axis=0), compute_uv=False)
    if across < FLAT * along:
        return None
    return Triangulation(*place_MA.T, Triangulation(*even_MA.T).triangles)
