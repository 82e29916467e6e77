"""Distributions of one number, a line per policy: which share lies above each value."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import numpy as np
from matplotlib.ticker import FuncFormatter, LogLocator, NullLocator

from sage_cli.metrics.counts import FloatArray
from sage_cli.reports.figure import drawing, outputs
from sage_cli.reports.legend import Legend

PANEL_IN = (3.6, 2.7)
COLUMNS = 3


def draw_tails(
    panels: Mapping[str, Mapping[str, FloatArray]], axis: str, stem: Path
) -> tuple[Path, Path]:
    """Draw panel -> policy -> positive values: which share of them lies above each value.

    Both axes are logarithmic, so that heavy tails are seen; no bandwidth is chosen. Returns the
    PNG's and the SVG's path.
    """
    policies = list(dict.fromkeys(policy for panel in panels.values() for policy in panel))
    columns = min(COLUMNS, len(panels))
    rows = -(-len(panels) // columns)
    width_in = PANEL_IN[0] * columns
    legend = Legend.of(policies, width_in)
    with drawing(stem, width_in, PANEL_IN[1] * rows + 0.1 + legend.height_in) as figure:
        places = figure.subplots(rows, columns, squeeze=False, sharex=True, sharey=True)
        for axes in places.ravel()[len(panels) :]:
            axes.set_visible(False)
        for axes, (title, panel) in zip(places.ravel(), panels.items(), strict=False):
            for policy, values in panel.items():
                if len(values):
                    ordered = np.sort(values)
                    share = 1 - np.arange(len(ordered)) / len(ordered)
                    axes.step(ordered, share, where="pre", linewidth=1.5, **legend.line(policy))
            axes.set_title(title)
            axes.set_xscale("log")
            axes.set_yscale("log")
            axes.set_xlabel(axis)
            axes.xaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
            axes.yaxis.set_major_locator(LogLocator())
            for one in (axes.xaxis, axes.yaxis):
                one.set_minor_locator(NullLocator())
                one.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
        for row in places:
            row[0].set_ylabel("share above")
        legend.draw_lines(figure)
    return outputs(stem)
