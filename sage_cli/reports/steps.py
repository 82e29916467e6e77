"""What a training recorded over its steps: a panel per quantity, a line per run."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import numpy as np

from sage_cli.metrics.counts import FloatArray
from sage_cli.reports.figure import FAINT, drawing, outputs
from sage_cli.reports.legend import Legend

PANEL_IN = (3.3, 2.1)
COLUMNS = 3
RAW = 8
"""Of more runs the raw lines would be a thicket."""
SMOOTHED = 40
"""A line of many steps is a mean over neighbouring ones, a fortieth of all; raw ones are faint."""

Series = tuple[FloatArray, FloatArray]
"""Steps, and a value at each."""


def draw_steps(
    panels: Mapping[str, Mapping[str, Series]],
    points: Mapping[str, Mapping[str, Series]],
    stem: Path,
) -> tuple[Path, Path]:
    """Draw quantity -> run -> series; `points` are few, and marked instead of smoothed.

    Returns the PNG's and the SVG's path.
    """
    everything = [*panels.values(), *points.values()]
    runs = list(dict.fromkeys(run for panel in everything for run in panel))
    titles = list(dict.fromkeys((*panels, *points)))
    columns = min(COLUMNS, len(titles))
    rows = -(-len(titles) // columns)
    width_in = PANEL_IN[0] * columns
    legend = Legend.of(runs, width_in)
    with drawing(stem, width_in, PANEL_IN[1] * rows + 0.2 + legend.height_in) as figure:
        places = figure.subplots(rows, columns, squeeze=False).ravel()
        for axes in places[len(titles) :]:
            axes.set_visible(False)
        for axes, title in zip(places, titles, strict=False):
            for run, (step, value) in panels.get(title, {}).items():
                style = legend.line(run)
                if len(runs) <= RAW:
                    axes.plot(step, value, linewidth=0.6, alpha=0.25, color=style["color"])
                axes.plot(step, smoothed(value), linewidth=1.5, **style)
            for run, (step, value) in points.get(title, {}).items():
                axes.plot(step, value, markersize=4, linewidth=1.2, **legend.styles[run])
            axes.set_title(title)
            smooth = " (bold: mean over neighbours)" if title in panels else ""
            axes.set_xlabel(f"step{smooth}", color=FAINT)
        legend.draw_lines(figure)
    return outputs(stem)


def smoothed(value: FloatArray) -> FloatArray:
    """The mean over a window around each step, shorter at both ends; NaN is left out."""
    width = max(1, len(value) // SMOOTHED)
    mean: FloatArray = np.array(
        [_mean(value[max(0, i - width) : i + width + 1]) for i in range(len(value))]
    )
    return mean


def _mean(values: FloatArray) -> float:
    known = values[~np.isnan(values)]
    return float(known.mean()) if len(known) else float("nan")
