"""The marks and colours of a sweep's trials in its pictures, and their legend."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from sage_cli.reports.figures.figure import COLOURS, FAINT, INK
from sage_cli.reports.sweeps.data import SweepResult

BEST = "#d55e00"
ALIKE, WORSE = COLOURS[0], "#9a9a9a"
"""Colours of points that are indistinguishable from the best, and of all others."""
INDISTINGUISHABLE = "indistinguishable from the best"
WITHOUT = ("missing", "failed", "pruned", "cancelled", "running")
"""States of trials without a measurement that have a mark."""

MARKS: dict[str, dict[str, Any]] = {
    "missing": {"marker": "P", "color": "white", "markeredgecolor": INK, "markersize": 7},
    "failed": {"marker": "X", "color": INK, "markeredgecolor": "white", "markersize": 7.5},
    "pruned": {"marker": "v", "color": "white", "markeredgecolor": INK, "markersize": 5.5},
    "cancelled": {"marker": "s", "color": "white", "markeredgecolor": FAINT, "markersize": 4},
    "running": {"marker": "o", "color": "white", "markeredgecolor": FAINT, "markersize": 3},
    "best": {"marker": "o", "color": "none", "markeredgecolor": BEST, "markersize": 11}
    | {"markeredgewidth": 2},
    "alike": {"marker": "o", "color": ALIKE, "markersize": 5.5},
    "bright": {"marker": "o", "markeredgecolor": INK, "markersize": 6},
    "worse": {"marker": "o", "color": WORSE, "markersize": 5.5},
    "front": {"marker": "o", "color": BEST, "markersize": 6.5},
    "base": {"marker": "D", "color": INK, "markersize": 6},
}
"""Name -> style; `bright` points are indistinguishable from the best on a surface."""
LOWEST, HIGHEST = 0.1, 0.7
"""The part of the colour map that shows values."""
FEWEST = 4
"""Of fewer values all are of interest."""


def colours() -> Any:
    """Return cividis: even in lightness, the same with colour vision deficiency."""
    import matplotlib as mpl

    return mpl.colormaps["cividis"]


def look(name: str) -> dict[str, Any]:
    """Return a mark's style."""
    return {"color": colours()(0.97), **MARKS[name]} if name == "bright" else MARKS[name]


def mark(axes: Any, x: float, y: float, name: str, **changes: Any) -> None:
    """Put a mark at (x, y)."""
    axes.plot([x], [y], linestyle="none", clip_on=False, **{**look(name), **changes})


def legend(figure: Any, words: dict[str, str], columns: int) -> None:
    """Add a legend of marks below the figure: mark -> words."""
    from matplotlib.lines import Line2D

    styles = {label: look(name) for name, label in words.items()}
    handles = [
        Line2D([], [], linestyle="none", label=label, **style | {"markersize": min(8, size)})
        for label, style in styles.items()
        if (size := style["markersize"])
    ]
    if handles:
        place = {"loc": "outside lower center", "ncols": columns}
        figure.legend(handles=handles, handlelength=1.2, fontsize=8, **place)


def states_of(result: SweepResult) -> dict[str, str]:
    """Return the legend's words for the states of trials without a value."""
    present = {trial.state for trial in result.trials}
    return {state: state for state in WITHOUT if state in present}


class Region(NamedTuple):
    """The values that have colours of their own; lower ones share the lowest if `clipped`."""

    low: float
    high: float
    clipped: bool

    @property
    def extend(self) -> str:
        """Return matplotlib's word for a colour bar with or without an arrow at its lower end."""
        return "min" if self.clipped else "neither"


def region_of_interest(values: Sequence[float], best: float, least: float) -> Region:
    """Return the range of colours for `values`: the better half of them has half of it or more.

    One trial that collapsed would otherwise leave a single colour to all the others. `least` is
    the least range: equal values get equal colours.
    """
    lowest = float(min(values))
    low = lowest
    if len(values) >= FEWEST:
        low = max(low, best - 2 * (best - float(np.median(values))))
    low = min(low, best - least)
    return Region(low, best, clipped=lowest < low)


def value_colours() -> Any:
    """Return the part of the colour map that shows values."""
    from matplotlib.colors import ListedColormap

    return ListedColormap(colours()(np.linspace(LOWEST, HIGHEST, 128)))


def colour_bar(figure: Any, axes: Any, region: Region, pad: float = 0.03) -> Any:
    """Draw a region's colour bar beside a panel; return it."""
    bar = figure.colorbar(
        value_scale(region), ax=axes, fraction=0.05, pad=pad, extend=region.extend
    )
    bar.outline.set_visible(False)
    return bar


def value_scale(region: Region) -> Any:
    """Return matplotlib's mapping from the values of a region to colours."""
    from matplotlib.cm import ScalarMappable
    from matplotlib.colors import Normalize

    return ScalarMappable(Normalize(region.low, region.high, clip=True), value_colours())
