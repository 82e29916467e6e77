"""Grids of panels with a legend below: points, distributions, and values over steps."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.ticker import MaxNLocator

from sage_cli.metrics.counts import FloatArray
from sage_cli.reports.figures.figure import FAINT, drawing, logarithmic
from sage_cli.reports.figures.legend import Legend, series_of

COLUMNS = 3
RAW = 8
"""With more runs than this, raw lines are not drawn behind the smoothed ones."""
SMOOTHED = 40
"""A smoothed line is a moving mean over this share of the steps."""

Series = tuple[FloatArray, FloatArray]
"""x and y of points: steps and values, or two numbers of each problem."""
Panels = Mapping[str, Mapping[str, Series]]
"""Title -> label -> points."""


@contextmanager
def panel_grid(
    stem: Path,
    panels: Mapping[str, Mapping[str, Any]],
    panel_in: tuple[float, float],
    extra_in: float,
    *,
    columns: int = COLUMNS,
    points: bool = False,
    **subplots: Any,
) -> Iterator[tuple[Legend, list[Any]]]:
    """Draw a panel per title, `columns` a row; yields the legend and the panels' axes."""
    columns = min(columns, len(panels))
    rows = -(-len(panels) // columns)
    width_in = panel_in[0] * columns
    legend = Legend.of(series_of(panels.values()), width_in)
    with drawing(stem, width_in, panel_in[1] * rows + extra_in + legend.height_in) as figure:
        grid = figure.subplots(rows, columns, squeeze=False, **subplots).ravel()
        for axes in grid[len(panels) :]:
            axes.set_visible(False)
        for axes, title in zip(grid, panels, strict=False):
            axes.set_title(title)
        yield legend, list(grid[: len(panels)])
        (legend.draw_points if points else legend.draw_lines)(figure)


def draw_scatter(panels: Panels, axes_names: tuple[str, str], stem: Path) -> None:
    """Draw two numbers of each problem against each other, a panel per benchmark."""
    form: dict[str, Any] = {"columns": len(panels), "points": True}
    with panel_grid(stem, panels, (3.6, 3.0), 0.2, **form) as (legend, grid):
        for axes, panel in zip(grid, panels.values(), strict=True):
            for label, (x, y) in panel.items():
                axes.scatter(x, y, s=9, alpha=0.55, linewidths=0, **legend.point(label))
            axes.set_xlabel(axes_names[0])
        grid[0].set_ylabel(axes_names[1])


def draw_tradeoff(panels: Mapping[str, Mapping[str, FloatArray]], k: int, stem: Path) -> None:
    """Draw benchmark -> policy -> points (T, 2) of pass@1 and pass@k, in their order.

    A line is a policy, a point a temperature.
    """
    with panel_grid(stem, panels, (4.6, 3.4), 0, columns=len(panels)) as (legend, grid):
        for axes, curves in zip(grid, panels.values(), strict=True):
            for label, points_T2 in curves.items():
                style = {"marker": "o", "markersize": 3, "linewidth": 1.4, **legend.line(label)}
                axes.plot(*points_T2.T, **style)
            axes.set_xlabel("pass@1")
        grid[0].set_ylabel(f"pass@{k}")


def draw_ecdf(panels: Mapping[str, Mapping[str, FloatArray]], axis: str, stem: Path) -> None:
    """Draw panel -> label -> positive values as the share that lies above each value.

    Both axes are logarithmic, so that heavy tails show; there is no bandwidth to choose.
    """
    with panel_grid(stem, panels, (3.6, 2.7), 0.1, sharex=True, sharey=True) as (legend, grid):
        for axes, panel in zip(grid, panels.values(), strict=True):
            for label, values in panel.items():
                if len(values):
                    share = 1 - np.arange(len(values)) / len(values)
                    look = legend.line(label)
                    axes.step(np.sort(values), share, where="pre", linewidth=1.5, **look)
            axes.set_xlabel(axis)
            logarithmic(axes, "x", (1, 2, 5))
            logarithmic(axes, "y")
        for axes in grid[:: min(COLUMNS, len(panels))]:
            axes.set_ylabel("share above")


def draw_lines(panels: Panels, axes_names: Sequence[str], stem: Path, name_y: str = "") -> None:
    """Draw title -> label -> x and y as lines; `axes_names` are of x, `name_y` is of all y."""
    with panel_grid(stem, panels, (3.6, 2.4), 0.2, sharey=True) as (legend, grid):
        for axes, panel, name in zip(grid, panels.values(), axes_names, strict=True):
            for label, (x, y) in panel.items():
                axes.plot(x, y, linewidth=1.5, **legend.line(label))
            axes.xaxis.set_major_locator(MaxNLocator(5))
            axes.xaxis.set_major_formatter("{x:,g}")
            axes.set_xlabel(name)
        grid[0].set_ylabel(name_y)


def draw_steps(lines: Panels, points: Panels, stem: Path) -> None:
    """Draw quantity -> run -> steps and values; `points` are marked instead of smoothed."""
    titles = dict.fromkeys((*lines, *points))
    panels = {title: {**lines.get(title, {}), **points.get(title, {})} for title in titles}
    with panel_grid(stem, panels, (3.3, 2.1), 0.2) as (legend, grid):
        for axes, title in zip(grid, panels, strict=True):
            for run, (step, value) in lines.get(title, {}).items():
                style = legend.line(run)
                if len(legend.styles) <= RAW:
                    axes.plot(step, value, linewidth=0.6, alpha=0.25, color=style["color"])
                axes.plot(step, smoothed(value), linewidth=1.5, **style)
            for run, (step, value) in points.get(title, {}).items():
                axes.plot(step, value, markersize=4, linewidth=1.2, **legend.styles[run])
            smooth = " (bold: mean over neighbours)" if title in lines else ""
            axes.set_xlabel(f"step{smooth}", color=FAINT)


def smoothed(value: FloatArray) -> FloatArray:
    """Return the mean over a window around each step, shorter at both ends, NaN left out."""
    width = max(1, len(value) // SMOOTHED)
    windows = [value[max(0, i - width) : i + width + 1] for i in range(len(value))]
    known = [window[~np.isnan(window)] for window in windows]
    return np.array([window.mean() if len(window) else np.nan for window in known], float)
