"""Two numbers of each problem against each other, a panel per benchmark, a colour per policy."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from sage_cli.metrics.counts import FloatArray
from sage_cli.reports.figure import drawing, outputs
from sage_cli.reports.legend import Legend

PANEL_IN = (3.6, 3.0)

Points = tuple[FloatArray, FloatArray]


def draw_scatters(
    panels: Mapping[str, Mapping[str, Points]], axes_names: tuple[str, str], stem: Path
) -> tuple[Path, Path]:
    """Draw panel -> policy -> (x, y) of its problems; returns the PNG's and the SVG's path."""
    policies = list(dict.fromkeys(policy for panel in panels.values() for policy in panel))
    width_in = PANEL_IN[0] * len(panels)
    legend = Legend.of(policies, width_in)
    with drawing(stem, width_in, PANEL_IN[1] + 0.2 + legend.height_in) as figure:
        places = figure.subplots(1, len(panels), squeeze=False)[0]
        for axes, (title, panel) in zip(places, panels.items(), strict=True):
            for policy, (x, y) in panel.items():
                axes.scatter(x, y, s=9, alpha=0.55, linewidths=0, **legend.point(policy))
            axes.set_title(title)
            axes.set_xlabel(axes_names[0])
        places[0].set_ylabel(axes_names[1])
        legend.draw_points(figure)
    return outputs(stem)
