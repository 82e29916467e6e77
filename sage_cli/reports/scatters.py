"""Two numbers of each problem against each other, a panel per benchmark, a colour per policy."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from matplotlib.lines import Line2D

from sage_cli.metrics.counts import FloatArray
from sage_cli.reports.figure import COLOURS, drawing, outputs

PANEL_IN = (3.6, 3.0)
MARKERS = "o^svDPX"

Points = tuple[FloatArray, FloatArray]


def draw_scatters(
    panels: Mapping[str, Mapping[str, Points]], axes_names: tuple[str, str], stem: Path
) -> tuple[Path, Path]:
    """Draw panel -> policy -> (x, y) of its problems; returns the PNG's and the SVG's path."""
    policies = list(dict.fromkeys(policy for panel in panels.values() for policy in panel))
    styles: dict[str, dict[str, Any]] = {
        policy: {"color": COLOURS[i % len(COLOURS)], "marker": MARKERS[i % len(MARKERS)]}
        for i, policy in enumerate(policies)
    }
    with drawing(stem, PANEL_IN[0] * len(panels), PANEL_IN[1] + 0.4) as figure:
        places = figure.subplots(1, len(panels), squeeze=False)[0]
        for axes, (title, panel) in zip(places, panels.items(), strict=True):
            for policy, (x, y) in panel.items():
                axes.scatter(x, y, s=9, alpha=0.55, linewidths=0, **styles[policy])
            axes.set_title(title)
            axes.set_xlabel(axes_names[0])
        places[0].set_ylabel(axes_names[1])
        handles = [
            Line2D([], [], linestyle="none", markersize=4, **style) for style in styles.values()
        ]
        figure.legend(
            handles, policies, loc="outside lower center", ncols=min(len(policies), 2 * len(panels))
        )
    return outputs(stem)
