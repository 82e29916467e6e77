"""The heat maps of a sweep over two settings."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from sage_cli.reports.figures.style import FAINT, GRID, INK, drawing, say
from sage_cli.trials.sweep.result import Axis, SweepResult
from sage_cli.trials.sweep.result_tables import describe_noise, value_text

CELL_IN = (0.78, 0.55)
BEST = "#d55e00"
INDISTINGUISHABLE = "indistinguishable from the best"
LOWEST, HIGHEST = 0.1, 0.7
"""The part of the colour map that shows values."""
LETTER_IN = 0.075
"""Width of a letter of a tick's label; columns are as wide as the widest label."""
ALIKE = 0.92
"""Place on the colour map of trials that are indistinguishable from the best."""
LEAST_SPAN = 0.1
"""Least range of the colour scale where the noise is unknown: equal values get equal colours."""
HATCHES = {"failed": "////", "pruned": "...."}
"""State -> how a trial without a result is filled."""


def draw_heatmaps(result: SweepResult, stem: Path) -> None:
    """Draw the trials, first parameter down, second across.

    A trial without a result shows its state, or "not run". The best trials of each objective have a
    frame. Trials that are indistinguishable from the best share one colour; the others' colours
    are values, with a colour bar.
    """
    from matplotlib.patches import Patch

    down, across = result.space
    down_values, across_values = down.values or (), across.values or ()
    letters = max(len(value_text(value)) for value in across_values)
    width_in = max(CELL_IN[0], LETTER_IN * letters + 0.1) * len(across_values) + 1.4
    height_in = max(1.9, CELL_IN[1] * len(down_values) + 1.5)
    alike = any(map(result.indistinguishable, result.objectives))
    with drawing(stem, max(2.9, width_in) * len(result.objectives), height_in) as figure:
        panels = figure.subplots(1, len(result.objectives), squeeze=False, sharey=True)[0]
        for axes, objective in zip(panels, result.objectives, strict=True):
            axes.set_title(objective)
            axes.set_xlabel(across.label)
            axes.set_xticks(range(len(across_values)), map(value_text, across_values))
            scale = _cells(axes, result, objective)
            if scale is not None:
                bar = figure.colorbar(scale, ax=axes, fraction=0.05, pad=0.03)
                bar.outline.set_visible(False)
            ranking = result.rankings.get(objective)
            words = "standard error unknown"
            if ranking:
                words = f"{100 * ranking.confidence:g}%, {describe_noise(ranking)}"
            say(axes, words, (0.5, 0), (0, -30), ha="center", va="top")
        beside = len(down.label) <= 3
        panels[0].set_ylabel(down.label, **({"rotation": 0, "ha": "right"} if beside else {}))
        panels[0].set_yticks(range(len(down_values)), map(value_text, down_values))
        handles = [Patch(facecolor="none", edgecolor=BEST, linewidth=2, label="best")]
        if alike:
            handles.append(Patch(facecolor=colours()(ALIKE), label=INDISTINGUISHABLE))
        if result.done:
            figure.legend(handles=handles, loc="outside lower center", ncols=2, handlelength=1.2)


def _cells(axes: Any, result: SweepResult, objective: str) -> Any | None:
    """Draw all trials; return the colours of those coloured by value, None if there are none."""
    down, across = result.space
    rows, columns = len(down.values or ()), len(across.values or ())
    axes.grid(visible=False)
    axes.tick_params(length=0)
    axes.spines[:].set_visible(False)
    axes.set_xlim(-0.5, columns - 0.5)
    axes.set_ylim(rows - 0.5, -0.5)
    value_at, alike = result.value_at(objective), result.indistinguishable(objective)
    best, highest = result.best(objective), max(value_at.values(), default=None)
    scaled = [value for index, value in value_at.items() if index not in alike]
    scale = None
    if scaled and highest is not None:
        scale = value_scale(min(*scaled, highest - (0.0 if alike else LEAST_SPAN)), highest)
    empty = {(row, column): "left" for row in range(rows) for column in range(columns)}
    for index, trial in enumerate(result.trials):
        cell = _index(down, trial.settings[down.key]), _index(across, trial.settings[across.key])
        empty[cell] = trial.state
        if index not in value_at:
            continue
        del empty[cell]
        colour, ink = colours()(ALIKE), INK
        if scale is not None and index not in alike:
            colour, share = scale.to_rgba(value_at[index]), float(scale.norm(value_at[index]))
            ink = "white" if LOWEST + (HIGHEST - LOWEST) * share < 0.5 else INK
        axes.add_patch(_square(*cell, facecolor=colour, edgecolor="white", linewidth=1.5))
        axes.text(cell[1], cell[0], f"{value_at[index]:.3f}", ha="center", va="center", color=ink)
        if best is not None and value_at[index] == value_at[best]:
            frame = _square(*cell, facecolor="none", edgecolor=BEST, linewidth=2.2, zorder=5)
            frame.set_clip_on(False)  # the panel's edge would hide half of the frame's line
            axes.add_patch(frame)
    for (row, column), state in empty.items():
        _empty(axes, row, column, state)
    return scale


def _empty(axes: Any, row: int, column: int, state: str) -> None:
    blank = _square(row, column, facecolor="white", edgecolor=GRID, linewidth=0, zorder=0.5)
    blank.set_hatch(HATCHES.get(state, ""))
    axes.add_patch(blank)
    words, box = "not run" if state == "left" else state, {"facecolor": "white", "pad": 1.5}
    style = {"ha": "center", "va": "center", "fontsize": 8, "style": "italic", "color": FAINT}
    axes.text(column, row, words, bbox={**box, "edgecolor": "none"}, **style)


def _index(axis: Axis, value: object) -> int:
    """Return the place of `value` among the axis's values, where 1 does not equal True."""
    values = axis.values or ()
    return [(type(listed) is bool, listed) for listed in values].index((type(value) is bool, value))  # type: ignore[arg-type]


def _square(row: float, column: float, **style: Any) -> Any:
    from matplotlib.patches import Rectangle

    return Rectangle((column - 0.5, row - 0.5), 1, 1, **style)


def colours() -> Any:
    """Return cividis: even in lightness, the same with colour vision deficiency."""
    import matplotlib as mpl

    return mpl.colormaps["cividis"]


def value_scale(low: float, high: float) -> Any:
    """Return matplotlib's mapping from values to colours."""
    from matplotlib.cm import ScalarMappable
    from matplotlib.colors import ListedColormap, Normalize

    colormap = ListedColormap(colours()(np.linspace(LOWEST, HIGHEST, 128)))
    return ScalarMappable(Normalize(low, high), colormap)
