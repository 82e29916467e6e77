"""Heat maps of a sweep over two settings, one panel per objective."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import matplotlib as mpl
import numpy as np
from matplotlib.cm import ScalarMappable
from matplotlib.colors import ListedColormap, Normalize
from matplotlib.patches import Patch, Rectangle
from numpy.typing import NDArray

from sage_cli.errors import MetricError
from sage_cli.metrics.counts import FloatArray
from sage_cli.reports.figure import FAINT, GRID, INK, drawing, outputs

CELL_IN = (0.78, 0.55)
COLOURS = "cividis"
"""Even in lightness, and the same to readers with and without colour vision deficiency."""
LOWEST, HIGHEST = 0.1, 0.7
"""The part of the map that shows values; black, and the bright end, are left for others."""
ALIKE = 0.92
"""Where on the map the colour is of what can't be told apart from the best."""
LEAST_SPAN = 0.1
"""Where the noise isn't known, values nearer than this don't get the ends of the scale."""

BEST = "#d55e00"


@dataclass(frozen=True)
class Axis:
    """A setting and the values it took."""

    name: str
    values: tuple[float | str, ...]


@dataclass(frozen=True, eq=False)
class Alike:
    """Which cells of shape (D, A) can't be told apart from the best, and how that was found."""

    cells_DA: NDArray[np.bool_]
    words: str


def draw_heatmaps(
    down: Axis,
    across: Axis,
    objectives_DA: Mapping[str, FloatArray],
    failed_DA: np.ndarray,
    stem: Path,
    alike: Mapping[str, Alike] | None = None,
) -> tuple[Path, Path]:
    """Draw objective -> values of shape (D, A); returns the PNG's and the SVG's path.

    NaN is a cell without a result: hatched, and called failed where `failed_DA` says so, "not
    run" elsewhere. The best cell of each objective has a frame, or the best ones if they tie. All
    that `alike` says can't be told apart from it have one colour; the others' are values, beside a
    colour bar.
    """
    shape, alike = (len(down.values), len(across.values)), alike or {}
    for name, values_DA in {**objectives_DA, "failed": failed_DA}.items():
        if np.shape(values_DA) != shape:
            raise MetricError(f"{name} has shape {np.shape(values_DA)}, the grid {shape}")
    width_in = max(2.9, CELL_IN[0] * shape[1] + 1.4)
    height_in = max(1.9, CELL_IN[1] * shape[0] + 1.5)
    with drawing(stem, width_in * len(objectives_DA), height_in) as figure:
        panels = figure.subplots(1, len(objectives_DA), squeeze=False, sharey=True)[0]
        for axes, (name, values_DA) in zip(panels, objectives_DA.items(), strict=True):
            axes.set_title(name)
            axes.set_xlabel(across.name)
            axes.set_xticks(range(shape[1]), [_tick(value) for value in across.values])
            scale = _cells(axes, np.asarray(values_DA, float), failed_DA, alike.get(name))
            if scale is not None:
                figure.colorbar(scale, ax=axes, fraction=0.05, pad=0.03).outline.set_visible(False)
            words = alike[name].words if name in alike else "noise unknown"
            axes.annotate(
                words, (0.5, 0), (0, -30), xycoords="axes fraction", textcoords="offset points",
                ha="center", va="top", fontsize=7, color=FAINT,
            )  # fmt: skip
        panels[0].set_ylabel(down.name, rotation=0, ha="right", va="center")
        panels[0].set_yticks(range(shape[0]), [_tick(value) for value in down.values])
        handles = [Patch(facecolor="none", edgecolor=BEST, linewidth=2, label="best")]
        if alike:
            words = "can't be told apart from the best"
            handles.append(Patch(facecolor=mpl.colormaps[COLOURS](ALIKE), label=words))
        figure.legend(handles=handles, loc="outside lower center", ncols=2, handlelength=1.2)
    return outputs(stem)


def _cells(axes: Any, values_DA: FloatArray, failed_DA: np.ndarray, alike: Alike | None) -> Any:
    """Draw all cells; returns the scale of those whose colour is a value, None if all are alike."""
    axes.grid(visible=False)
    axes.tick_params(length=0)
    axes.spines[:].set_visible(False)
    axes.set_xlim(-0.5, values_DA.shape[1] - 0.5)
    axes.set_ylim(values_DA.shape[0] - 0.5, -0.5)
    known_DA = ~np.isnan(values_DA)
    best = values_DA[known_DA].max() if known_DA.any() else np.nan
    one_colour_DA = alike.cells_DA if alike else np.zeros_like(known_DA)
    scale = _scale(values_DA[known_DA & ~one_colour_DA], best, 0.0 if alike else LEAST_SPAN)
    for (row, column), value in np.ndenumerate(values_DA):
        if np.isnan(value):
            _empty(axes, row, column, "failed" if failed_DA[row, column] else "not run")
            continue
        if scale is None or one_colour_DA[row, column]:
            colour, ink = mpl.colormaps[COLOURS](ALIKE), INK
        else:
            colour, place = scale.to_rgba(value), scale.norm(value)
            ink = "white" if LOWEST + (HIGHEST - LOWEST) * place < 0.5 else INK
        axes.add_patch(_square(row, column, facecolor=colour, edgecolor="white", linewidth=1.5))
        axes.text(column, row, f"{value:.3f}", ha="center", va="center", color=ink, fontsize=9)
    frame = {"facecolor": "none", "edgecolor": BEST, "linewidth": 2.2, "clip_on": False}
    for row, column in np.argwhere(values_DA == best):
        axes.add_patch(_square(row, column, zorder=5, **frame))
    return scale


def _scale(values: FloatArray, best: float, least: float) -> Any:
    """Colours from the worst of `values` up to the best cell, at least so far; None for none."""
    if not values.size:
        return None
    part = mpl.colormaps[COLOURS](np.linspace(LOWEST, HIGHEST, 128))
    low = min(float(values.min()), best - least)
    return ScalarMappable(Normalize(low, best), ListedColormap(part))


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
