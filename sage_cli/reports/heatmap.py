"""Heat maps of a sweep over two settings, one panel per objective."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import matplotlib as mpl
import numpy as np
from matplotlib.patches import Rectangle

from sage_cli.errors import MetricError
from sage_cli.metrics.counts import FloatArray
from sage_cli.reports.figure import FAINT, GRID, INK, drawing, outputs

CELL_IN = (0.78, 0.55)
COLOURS = "cividis"
"""Even in lightness, and the same to readers with and without colour vision deficiency."""

BEST = "#d55e00"


@dataclass(frozen=True)
class Axis:
    """A setting and the values it took."""

    name: str
    values: tuple[float | str, ...]


def draw_heatmaps(
    down: Axis,
    across: Axis,
    objectives_DA: Mapping[str, FloatArray],
    failed_DA: np.ndarray,
    stem: Path,
) -> tuple[Path, Path]:
    """Draw objective -> values of shape (D, A); returns the PNG's and the SVG's path.

    NaN is a cell without a result: hatched, and called failed where `failed_DA` says so, "not
    run" elsewhere. The best cell of each objective has a frame, or the best ones if they tie.
    """
    shape = (len(down.values), len(across.values))
    for name, values_DA in {**objectives_DA, "failed": failed_DA}.items():
        if np.shape(values_DA) != shape:
            raise MetricError(f"{name} has shape {np.shape(values_DA)}, the grid {shape}")
    width_in = max(2.2, CELL_IN[0] * shape[1] + 0.7)
    height_in = max(1.3, CELL_IN[1] * shape[0] + 0.9)
    with drawing(stem, width_in * len(objectives_DA), height_in) as figure:
        panels = figure.subplots(1, len(objectives_DA), squeeze=False, sharey=True)[0]
        for axes, (name, values_DA) in zip(panels, objectives_DA.items(), strict=True):
            axes.set_title(name)
            axes.set_xlabel(across.name)
            axes.set_xticks(range(shape[1]), [_tick(value) for value in across.values])
            _cells(axes, np.asarray(values_DA, float), failed_DA)
        panels[0].set_ylabel(down.name, rotation=0, ha="right", va="center")
        panels[0].set_yticks(range(shape[0]), [_tick(value) for value in down.values])
    return outputs(stem)


def _cells(axes: Any, values_DA: FloatArray, failed_DA: np.ndarray) -> None:
    axes.grid(visible=False)
    axes.tick_params(length=0)
    axes.spines[:].set_visible(False)
    axes.set_xlim(-0.5, values_DA.shape[1] - 0.5)
    axes.set_ylim(values_DA.shape[0] - 0.5, -0.5)
    known = values_DA[~np.isnan(values_DA)]
    low, high = (known.min(), known.max()) if known.size else (np.nan, np.nan)
    for (row, column), value in np.ndenumerate(values_DA):
        if np.isnan(value):
            _empty(axes, row, column, "failed" if failed_DA[row, column] else "not run")
            continue
        # The ends of the map are left out: black and bright yellow drown the figures in them.
        place = 0.5 if high == low else 0.1 + 0.8 * (value - low) / (high - low)
        colour = mpl.colormaps[COLOURS](place)
        axes.add_patch(_square(row, column, facecolor=colour, edgecolor="white", linewidth=1.5))
        ink = "white" if place < 0.5 else INK
        axes.text(column, row, f"{value:.3f}", ha="center", va="center", color=ink, fontsize=9)
    for row, column in np.argwhere(values_DA == high):
        axes.add_patch(
            _square(
                row,
                column,
                facecolor="none",
                edgecolor=BEST,
                linewidth=2.2,
                zorder=5,
                clip_on=False,
            )
        )


def _empty(axes: Any, row: int, column: int, words: str) -> None:
    axes.add_patch(
        _square(
            row, column, facecolor="white", edgecolor=GRID, hatch="////", linewidth=0, zorder=0.5
        )
    )
    axes.text(
        column, row, words, ha="center", va="center", fontsize=8, style="italic", color=FAINT,
        bbox={"facecolor": "white", "edgecolor": "none", "pad": 1.5},
    )  # fmt: skip


def _square(row: Any, column: Any, **style: Any) -> Rectangle:
    return Rectangle((float(column) - 0.5, float(row) - 0.5), 1, 1, **style)


def _tick(value: float | str) -> str:
    return value if isinstance(value, str) else f"{value:.3g}"
