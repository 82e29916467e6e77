"""Pictures of pass@k against pass@1: a line a policy, a point a temperature or a checkpoint."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from sage_cli.metrics.counts import FloatArray
from sage_cli.reports.figures.figure import drawing
from sage_cli.reports.figures.legend import Legend, series_of

PANEL_IN = (4.6, 3.4)


def draw_trade(panels: Mapping[str, Mapping[str, FloatArray]], k: int, stem: Path) -> None:
    """Draw benchmark -> policy -> points (T, 2) of pass@1 and pass@k, in their order."""
    labels = series_of(panels.values())
    width_in = PANEL_IN[0] * len(panels)
    legend = Legend.of(labels, width_in)
    with drawing(stem, width_in, PANEL_IN[1] + legend.height_in) as figure:
        (row,) = figure.subplots(1, len(panels), squeeze=False)
        for axes, (benchmark, curves) in zip(row, panels.items(), strict=True):
            for label, points_T2 in curves.items():
                style = {"marker": "o", "markersize": 3, "linewidth": 1.4, **legend.line(label)}
                axes.plot(*points_T2.T, **style)
            axes.set_title(benchmark)
            axes.set_xlabel("worked pass@1")
        row[0].set_ylabel(f"worked pass@{k}")
        legend.draw_lines(figure)
