"""Heat maps of a sweep over two parameters with values, one panel per objective."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import matplotlib as mpl
import numpy as np
from matplotlib.cm import ScalarMappable
from matplotlib.colors import ListedColormap, Normalize
from matplotlib.patches import Patch, Rectangle

from sage_cli.reports.figure import FAINT, GRID, INK, drawing, outputs
from sage_cli.reports.sweeps.data import Axis, SweepResult, as_text
from sage_cli.reports.sweeps.marks import BEST, NOT_TOLD
from sage_cli.reports.sweeps.table import noise_in_words

CELL_IN = (0.78, 0.55)
LETTER_IN = 0.075
"""Of a tick's label; columns are as wide as the widest asks for."""
COLOURS = "cividis"
"""Even in lightness, and the same to readers with and without colour vision deficiency."""
LOWEST, HIGHEST = 0.1, 0.7
"""The part of the map that shows values; black, and the bright end, are left for others."""
ALIKE = 0.92
"""Where on the map the colour is of what can't be told apart from the best."""
LEAST_SPAN = 0.1
"""Where the noise isn't known, values nearer than this don't get the ends of the scale."""
EMPTY = {"failed": "////", "pruned": "...."} | dict.fromkeys(
    ("missing", "cancelled", "running", "left"), ""
)
"""How a cell without a result is filled, by its state."""


def draw_heatmaps(result: SweepResult, stem: Path) -> tuple[Path, Path]:
    """Draw the cells, first parameter down, second across; returns the PNG's and the SVG's path.

    A cell without a result is called by its state, or "not run". The best cell of each objective
    has a frame, or the best ones if they tie. All that can't be told apart from it have one colour;
    the others' are values, beside a colour bar.
    """
    down, across = result.axes
    down_values, across_values = down.values or (), across.values or ()
    letters = max(len(as_text(value)) for value in across_values)
    width_in = max(CELL_IN[0], LETTER_IN * letters + 0.1) * len(across_values) + 1.4
    height_in = max(1.9, CELL_IN[1] * len(down_values) + 1.5)
    alike = any(map(result.alike, result.objectives))
    with drawing(stem, max(2.9, width_in) * len(result.objectives), height_in) as figure:
        panels = figure.subplots(1, len(result.objectives), squeeze=False, sharey=True)[0]
        for axes, objective in zip(panels, result.objectives, strict=True):
            axes.set_title(objective)
            axes.set_xlabel(across.label)
            axes.set_xticks(range(len(across_values)), map(as_text, across_values))
            scale = _cells(axes, result, objective)
            if scale is not None:
                figure.colorbar(scale, ax=axes, fraction=0.05, pad=0.03).outline.set_visible(False)
            ranking = result.findings.rankings.get(objective)
            words = "noise unknown"
            if ranking:
                words = f"{100 * ranking.confidence:g} %, {noise_in_words(ranking)}"
            axes.annotate(
                words, (0.5, 0), (0, -30), xycoords="axes fraction", textcoords="offset points",
                ha="center", va="top", fontsize=7, color=FAINT,
            )  # fmt: skip
        beside = len(down.label) <= 3
        panels[0].set_ylabel(down.label, **({"rotation": 0, "ha": "right"} if beside else {}))
        panels[0].set_yticks(range(len(down_values)), map(as_text, down_values))
        handles = [Patch(facecolor="none", edgecolor=BEST, linewidth=2, label="best")]
        if alike:
            handles.append(Patch(facecolor=mpl.colormaps[COLOURS](ALIKE), label=NOT_TOLD))
        if result.done:
            figure.legend(handles=handles, loc="outside lower center", ncols=2, handlelength=1.2)
    return outputs(stem)


def _cells(axes: Any, result: SweepResult, objective: str) -> Any:
    """Draw all cells; returns the scale of those whose colour is a value, None if all are alike."""
    down, across = result.axes
    rows, columns = len(down.values or ()), len(across.values or ())
    axes.grid(visible=False)
    axes.tick_params(length=0)
    axes.spines[:].set_visible(False)
    axes.set_xlim(-0.5, columns - 0.5)
    axes.set_ylim(rows - 0.5, -0.5)
    which, alike = result.objectives.index(objective), result.alike(objective)
    value_at = {place: values[which] for place, _, values in result.done}
    best = max(value_at.values(), default=np.nan)
    scaled = [value for place, value in value_at.items() if place not in alike]
    scale = _scale(scaled, best, 0.0 if alike else LEAST_SPAN)
    empty = {(row, column): "left" for row in range(rows) for column in range(columns)}
    for place, cell in enumerate(result.cells):
        at = _index(down, cell.settings[down.key]), _index(across, cell.settings[across.key])
        empty[at] = cell.state
        if place not in value_at:
            continue
        del empty[at]
        colour, ink = mpl.colormaps[COLOURS](ALIKE), INK
        if scale is not None and place not in alike:
            colour, share = scale.to_rgba(value_at[place]), scale.norm(value_at[place])
            ink = "white" if LOWEST + (HIGHEST - LOWEST) * share < 0.5 else INK
        axes.add_patch(_square(*at, facecolor=colour, edgecolor="white", linewidth=1.5))
        axes.text(at[1], at[0], f"{value_at[place]:.3f}", ha="center", va="center", color=ink)
        if value_at[place] == best:
            frame = _square(*at, facecolor="none", edgecolor=BEST, linewidth=2.2, zorder=5)
            frame.set_clip_on(False)
            axes.add_patch(frame)
    for (row, column), state in empty.items():
        _empty(axes, row, column, state)
    return scale


def _scale(values: list[float], best: float, least: float) -> Any:
    """Colours from the worst of `values` up to the best cell, at least so far; None for none."""
    if not values:
        return None
    part = mpl.colormaps[COLOURS](np.linspace(LOWEST, HIGHEST, 128))
    return ScalarMappable(Normalize(min(*values, best - least), best), ListedColormap(part))


def _empty(axes: Any, row: int, column: int, state: str) -> None:
    blank = _square(row, column, facecolor="white", edgecolor=GRID, linewidth=0, zorder=0.5)
    blank.set_hatch(EMPTY[state])
    axes.add_patch(blank)
    axes.text(
        column, row, "not run" if state == "left" else state, ha="center", va="center", fontsize=8,
        style="italic", color=FAINT, bbox={"facecolor": "white", "edgecolor": "none", "pad": 1.5},
    )  # fmt: skip


def _index(axis: Axis, value: object) -> int:
    """Where `value` stands among the axis's; 1 is no True there."""
    values = axis.values or ()
    return [(type(one) is bool, one) for one in values].index((type(value) is bool, value))  # type: ignore[arg-type]


def _square(row: float, column: float, **style: Any) -> Rectangle:
    return Rectangle((column - 0.5, row - 0.5), 1, 1, **style)
