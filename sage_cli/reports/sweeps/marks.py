"""How a sweep's cells look in its pictures: measured, best, failed, pruned, and the legend."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

import matplotlib as mpl
from matplotlib.lines import Line2D

from sage_cli.reports.figure import COLOURS, FAINT, INK
from sage_cli.reports.sweeps.data import SweepResult

BEST = "#d55e00"
ALIKE, WORSE = COLOURS[0], "#9a9a9a"
"""Of points that can't be told apart from the best, and of all others; on a surface the first are
`bright`."""
NOT_TOLD = "can't be told apart from the best"
WITHOUT = ("missing", "failed", "pruned", "cancelled", "running")
"""States of cells without a measurement that are drawn."""

MARKS: dict[str, dict[str, Any]] = {
    "missing": {"marker": "P", "color": "white", "markeredgecolor": INK, "markersize": 7},
    "failed": {"marker": "X", "color": INK, "markeredgecolor": "white", "markersize": 7.5},
    "pruned": {"marker": "v", "color": "white", "markeredgecolor": INK, "markersize": 5.5},
    "cancelled": {"marker": "s", "color": "white", "markeredgecolor": FAINT, "markersize": 4},
    "running": {"marker": "o", "color": "white", "markeredgecolor": FAINT, "markersize": 3},
    "best": {"marker": "o", "color": "none", "markeredgecolor": BEST, "markersize": 11,
             "markeredgewidth": 2},
    "alike": {"marker": "o", "color": ALIKE, "markersize": 5.5},
    "bright": {"marker": "o", "color": mpl.colormaps["cividis"](0.97), "markeredgecolor": INK,
               "markersize": 6},
    "worse": {"marker": "o", "color": WORSE, "markersize": 5.5},
    "front": {"marker": "o", "color": BEST, "markersize": 6.5},
    "base": {"marker": "D", "color": INK, "markersize": 6},
}  # fmt: skip


def mark(axes: Any, x: float, y: float, name: str, **changes: Any) -> None:
    """Put a mark at (x, y)."""
    axes.plot([x], [y], linestyle="none", clip_on=False, **{**MARKS[name], **changes})


def legend(figure: Any, words: dict[str, str], columns: int) -> None:
    """What marks mean, below everything: mark -> words."""
    handles = [
        Line2D([], [], linestyle="none", label=label,
               **{**MARKS[name], "markersize": min(8, MARKS[name]["markersize"])})
        for name, label in words.items()
    ]  # fmt: skip
    if handles:
        figure.legend(
            handles=handles, loc="outside lower center", ncols=columns, handlelength=1.2,
            fontsize=8,
        )  # fmt: skip


def states_of(result: SweepResult) -> dict[str, str]:
    """The legend's words for the cells without a value that `result` has."""
    there: Collection[str] = {cell.state for cell in result.cells}
    return {state: state for state in WITHOUT if state in there}
