"""Figures of panels side by side: points, shares above, lines, training steps."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from sage_cli.metrics.estimators import FloatArray
from sage_cli.reports.figures.legend import Legend, series_of
from sage_cli.reports.figures.style import FAINT, drawing, logarithmic

_COLUMNS = 3
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
    columns: int = _COLUMNS,
    points: bool = False,
    **subplots: Any,
) -> Iterator[tuple[Legend, list[Any]]]:
    """Draw a panel per title, `columns` a row; yields the legend and the panels' axes."""
    columns = min(columns, len(panels))
    rows = -(-len(panels) // columns)
    width_in = panel_in[0] * columns
    legend = Legend.from_labels(series_of(panels.values()), width_in)
    with drawing(stem, width_in, panel_in[1] * rows + extra_in + legend.height_in) as figure:
        grid = figure.subplots(rows, columns, squeeze=False, **subplots).ravel()
        for axes in grid[len(panels) :]:
            axes.set_visible(False)
        for axes, title in zip(grid, panels, strict=False):
            axes.set_title(title)
        yield legend, list(grid[: len(panels)])
        legend.draw(figure, points=points)


def draw_points(
    panels: Panels, axes_names: tuple[str, str], stem: Path, *, joined: bool = False
) -> None:
    """Draw two numbers against each other, a panel per benchmark: of problems, or `joined` places.

    Joined are those of a policy, as its pass@1 and pass@k by temperature.
    """
    form: dict[str, Any] = {"columns": len(panels), "points": not joined}
    alone = {"linestyle": "none", "alpha": 0.55, "markeredgewidth": 0}
    with panel_grid(stem, panels, (4.2, 3.2), 0.1, **form) as (legend, grid):
        for axes, panel in zip(grid, panels.values(), strict=True):
            for label, (x, y) in panel.items():
                look = {"marker": "o", **legend.line(label)} if joined else legend.point(label)
                axes.plot(x, y, markersize=3, linewidth=1.4, **look, **({} if joined else alone))
            axes.set_xlabel(axes_names[0])
        grid[0].set_ylabel(axes_names[1])


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
        for axes in grid[:: min(_COLUMNS, len(panels))]:
            axes.set_ylabel("share above")


def draw_lines(panels: Panels, axes_names: Sequence[str], stem: Path) -> None:
    """Draw title -> label -> x and y as lines; `axes_names` are of x."""
    from matplotlib.ticker import MaxNLocator

    with panel_grid(stem, panels, (3.6, 2.4), 0.2, sharey=True) as (legend, grid):
        for axes, panel, name in zip(grid, panels.values(), axes_names, strict=True):
            for label, (x, y) in panel.items():
                axes.plot(x, y, linewidth=1.5, **legend.line(label))
            axes.xaxis.set_major_locator(MaxNLocator(5))
            axes.xaxis.set_major_formatter("{x:,g}")
            axes.set_xlabel(name)


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
    defined = [window[~np.isnan(window)] for window in windows]
    return np.array([window.mean() if len(window) else np.nan for window in defined], float)
