"""Heat strips: a strip per policy, a cell per problem, coloured by its share of right samples."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from sage_cli.metrics.counts import FloatArray
from sage_cli.reports.figures.figure import FAINT, drawing

WIDTH_IN = 7.5
STRIP_IN = 0.26
STEPS = 64


def draw_heat_strip(panels: Mapping[str, Mapping[str, FloatArray]], stem: Path) -> None:
    """Draw benchmark -> policy -> share of right samples (P,), problems in the same order.

    Problems are sorted by the first policy's share; the others' break ties. A problem that no
    sample solves is white; darker means more right samples.
    """
    policies = max(len(panel) for panel in panels.values())
    height_in = sum(STRIP_IN * len(panel) + 0.65 for panel in panels.values()) + 0.5
    ratios = [STRIP_IN * len(panel) + 0.4 for panel in panels.values()]
    with drawing(stem, WIDTH_IN, height_in) as figure:
        places = figure.subplots(
            len(panels), 1, squeeze=False, gridspec_kw={"height_ratios": ratios}
        )[:, 0]
        for axes, (title, panel) in zip(places, panels.items(), strict=True):
            share_MP = np.stack(list(panel.values()))
            order_P = np.lexsort(share_MP[::-1])
            share_MP = np.ma.masked_equal(share_MP[:, order_P], 0)
            style = {"aspect": "auto", "interpolation": "nearest", "vmin": 0, "vmax": 1}
            image = axes.imshow(share_MP, cmap=_colours(), **style)
            axes.set_title(title)
            axes.set_yticks(range(len(panel)), list(panel))
            axes.set_xticks([])
            axes.grid(visible=False)
            axes.tick_params(axis="y", length=0)
            for boundary in range(1, len(panel)):
                axes.axhline(boundary - 0.5, color="white", linewidth=2)
            words = f"{len(order_P)} problems, sorted by {next(iter(panel))}"
            axes.set_xlabel(words, fontsize=7, color=FAINT)
        bar = figure.colorbar(image, ax=list(places), fraction=0.03 + 0.01 * policies, aspect=18)
        bar.set_label("share of samples that are right")
        bar.outline.set_visible(False)


def _colours() -> Any:
    """Return a colour map from pale to dark blue, masked values white."""
    from matplotlib.colors import ListedColormap

    pale, dark = np.array([0.80, 0.88, 0.95]), np.array([0.0, 0.20, 0.40])
    steps = pale + (dark - pale) * np.linspace(0, 1, STEPS)[:, None]
    return ListedColormap([*map(tuple, steps)]).with_extremes(bad="white")
